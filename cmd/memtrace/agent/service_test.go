package agent

import (
	"testing"

	"github.com/memtrace/memtrace/procfs/collect"
)

// Control groups as docker, podman, Kubernetes, systemd and a login make them.
func TestGroupName(t *testing.T) {
	const id = "3f2a0c11d5b8e9f00112233445566778899aabbccddeeff00112233445566778"
	for group, want := range map[string]string{
		"/system.slice/nginx.service":                                     "nginx",
		"/system.slice/docker-" + id + ".scope":                           "docker 3f2a0c11d5b8",
		"/machine.slice/libpod-" + id + ".scope/container":                "libpod 3f2a0c11d5b8",
		"/system.slice/postgresql.service/child":                          "postgresql",
		"/user.slice/user-1000.slice/session-2.scope":                     "",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope": "",
		"/": "", "": "", "relative": "", "/a/b/c": "",
	} {
		if got, _ := groupName(group); got != want {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
	for group, want := range map[string]string{
		"/system.slice/nginx.service": "nginx.service", "/user.slice/user-1000.slice/session-2.scope": "session-2.scope",
		"/system.slice/system-postgresql.slice/postgresql@15-main.service": "postgresql@15-main.service", "/a": "", "": "", "/": "",
	} {
		if got := unitOf(group); got != want {
			t.Errorf("unit of %s: %q, want %q", group, got, want)
		}
	}
}

// A name that a process chose can do no harm in a label.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"nginx": "nginx", "a\x1b[31mb": "a?[31mb", "a\nb": "a?b", "\xff\xfe": "?", "": "", "né": "né", "a\u202eb": "a?b",
	} {
		if got := printable(name); got != want || got != "" && !isServiceName(got) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	long := make([]byte, 0, 3*maxServiceName)
	for range maxServiceName {
		long = append(long, "né"...)
	}
	if got := printable(string(long)); !isServiceName(got) || len(got) < maxServiceName-3 {
		t.Errorf("a long name became %d bytes: %q", len(got), got)
	}
}

// All that a rule asks must hold, and the first rule that matches names a process. What could not be read matches
// nothing.
func TestRules(t *testing.T) {
	c := parsed(t, `services:
- {name: exact, program: web, cgroup: /app}
- {name: pattern, program: "web*"}
- {name: never, command: "."}
others: none
`)
	for comm, want := range map[string]string{"web": "pattern", "web-2": "pattern", "xweb": "other", "": "other"} {
		if name, _, named := c.serviceOf(&collect.Process{Comm: comm}, processGroup{}); name != want || named != (want != "other") {
			t.Errorf("%q: %q %v, want %q", comm, name, named, want)
		}
	}
	for _, group := range []string{"/app", "/app/x"} {
		if !isBelow(group, "/app") || !isBelow(group, "/") {
			t.Errorf("%s is not below /app", group)
		}
	}
	if isBelow("/apple", "/app") {
		t.Error("/apple is below /app")
	}
}

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}
