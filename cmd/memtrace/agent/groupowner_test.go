package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/procfs/collect"
)

// fakeGroups are groups as a machine has them: those of the users are their own, and have the names of others'.
func fakeGroups(t *testing.T) *groupOwners {
	t.Helper()
	g := &groupOwners{root: t.TempDir()}
	add := func(group string, owner int) {
		path := filepath.Join(g.root, group)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	add("system.slice/nginx.service", 0)
	add("system.slice/app.service", 1001) // with Delegate= and User=
	add("system.slice/app.service/nginx.service", 1001)
	add("system.slice/app.service/worker", 1001)
	add("user.slice/user-1000.slice/session-2.scope", 0)
	add("user.slice/user-1000.slice/user@1000.service", 1000)
	add("user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service", 1000)
	add("user.slice/user-1000.slice/user@1000.service/app.slice/docker-"+containerID+".scope", 1000)
	g.begin()
	return g
}

const containerID = "3f2a0c11d5b8e9f00112233445566778899aabbccddeeff00112233445566778"

// in is the group of a process of a user.
func in(owners *groupOwners, path string, uid uint32) processGroup {
	g := processGroup{known: true, path: path, named: owners.of(path), user: uid}
	if uid, ok := sessionUser(g.byRoot); ok {
		g.user = uid
	}
	return g
}

// A user's process is not counted with another's service, whatever it and its groups are called.
func TestNamesOfAUsersOwn(t *testing.T) {
	const own = "/user.slice/user-1000.slice/user@1000.service/app.slice/"
	owners := fakeGroups(t)
	c := parsed(t, "")
	for _, test := range []struct {
		comm, group string
		uid         uint32
		want        string
	}{
		{"nginx", "/system.slice/nginx.service", 0, "nginx"},
		{"worker", "/system.slice/nginx.service", 33, "nginx"},
		{"x", "/system.slice/app.service/worker", 1001, "app"},
		{"x", "/system.slice/app.service/nginx.service", 1001, "nginx (user 1001)"},
		{"x", own + "nginx.service", 1000, "nginx (user 1000)"},
		{"x", own + "docker-" + containerID + ".scope", 1000, "docker 3f2a0c11d5b8 (user 1000)"},
		{"nginx", "/user.slice/user-1000.slice/session-2.scope", 1000, "nginx (user 1000)"},
		{"nginx", "/user.slice/user-1000.slice/session-2.scope", 0, "nginx (user 1000)"}, // a link of that name to su
		{"nginx", "/", 1000, "nginx (user 1000)"},
		{"nginx", "/", 0, "nginx"},
		{"a (user 1000)", "/", 1001, "a (user 1000) (user 1001)"},
		{"a (user 1000)", "/", 0, "a (user 1000"},
		{"nginx", "/system.slice/gone.service", 0, "gone (unknown user)"},
		{"nginx", own + "gone.service", 1000, "gone (user 1000)"},
	} {
		group := in(owners, test.group, test.uid)
		if name, _, _ := c.serviceOf(&collect.Process{Comm: test.comm}, group); name != test.want {
			t.Errorf("%s of user %d in %s is %q, want %q", test.comm, test.uid, test.group, name, test.want)
		}
	}
}

// A rule takes no process that a user's own group says is its, unless it asks for that user.
func TestRulesAgainstAUsersGroups(t *testing.T) {
	const own = "/user.slice/user-1000.slice/user@1000.service/app.slice/"
	container := "docker-" + containerID + ".scope"
	owners := fakeGroups(t)
	for _, test := range []struct {
		rule, group string
		uid         uint32
		want        bool
	}{
		{"unit: nginx.service", "/system.slice/nginx.service", 0, true},
		{"unit: nginx.service", "/system.slice/app.service/nginx.service", 1001, false},
		{"unit: app.service", "/system.slice/app.service/nginx.service", 1001, true},
		{"unit: nginx.service", own + "nginx.service", 1000, false},
		{"unit: nginx.service, user: 1000", own + "nginx.service", 1000, true},
		{"unit: nginx.service, user: 1001", own + "nginx.service", 1000, false},
		{"container: 3f2a0c11", own + container, 1000, false},
		{"container: 3f2a0c11, user: 1000", own + container, 1000, true},
		{"program: nginx", "/", 1000, true}, // as it says
		{"program: nginx, user: root", "/", 1000, false},
		{"program: nginx, user: root", "/", 0, true},
		{"program: nginx, user: root", "/user.slice/user-1000.slice/session-2.scope", 0, false},
		{"program: nginx, user: 4294967295", "/", unknownUser, false},
	} {
		c := parsed(t, "services: [{name: s, "+test.rule+"}]")
		if got := c.Services[0].matches(&collect.Process{Comm: "nginx"}, in(owners, test.group, test.uid)); got != test.want {
			t.Errorf("%s: %v of a process of user %d in %s", test.rule, got, test.uid, test.group)
		}
	}
}

// Where no hierarchy is mounted, the group that systemd gives a user still says whose the names below it are.
func TestGroupsByPathAlone(t *testing.T) {
	for path, want := range map[string]named{
		"/system.slice/nginx.service":                    {byRoot: "/system.slice/nginx.service"},
		"/user.slice/user-7.slice/user@7.service":        {byRoot: "/user.slice/user-7.slice/user@7.service"},
		"/user.slice/user-7.slice/user@7.service/a/b":    {"/user.slice/user-7.slice/user@7.service", true, 7},
		"/../system.slice/user@7.service/a.service":      {"/../system.slice/user@7.service", true, 7},
		"/system.slice/user@x.service/a.service":         {byRoot: "/system.slice/user@x.service/a.service"},
		"/user.slice/user-0.slice/user@0.service/a.unit": {byRoot: "/user.slice/user-0.slice/user@0.service/a.unit"},
		"/": {byRoot: "/"}, "": {byRoot: ""},
	} {
		if got := new(groupOwners).of(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// A rule that any user can have their processes be of is said.
func TestRulesThatAnybodyFits(t *testing.T) {
	c := parsed(t, "services: [{name: a, program: x}, {name: b, command: x}, {name: c, program: x, user: root}, {name: d, unit: x}, "+
		"{name: e, program: x, cgroup: /}, {name: f, program: x, cgroup: //./}, {name: g, program: x, cgroup: /a}]")
	for i, want := range []bool{true, true, false, false, true, true, false} {
		if r := &c.Services[i]; r.anybodys() != want {
			t.Errorf("%s: %v", r.Name, r.anybodys())
		}
	}
}
