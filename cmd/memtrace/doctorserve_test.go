//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/tracer"
)

// unitTree is a root directory with files of systemd's in it, copied from packaging or as text.
func unitTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		if name, ok := strings.CutPrefix(text, "packaging/"); ok {
			packaged, err := os.ReadFile("../../packaging/systemd/" + name)
			if err != nil {
				t.Fatal(err)
			}
			text = string(packaged)
		}
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The unit gives what it says, with its drop-ins: a file in /etc before one of that name elsewhere, an empty setting
// against what was set before.
func TestServiceUnit(t *testing.T) {
	const unit, dropIn = "/usr/lib/systemd/system/memtrace.service", "/etc/systemd/system/memtrace.service.d/growth.conf"
	for what, test := range map[string]struct {
		files   map[string]string
		lacks   string
		memory  uint64
		folders bool
	}{
		"alone": {map[string]string{unit: "packaging/memtrace.service"},
			"CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_BPF, CAP_CHECKPOINT_RESTORE", 100 << 20, false},
		"with growth": {map[string]string{unit: "packaging/memtrace.service", dropIn: "packaging/memtrace-growth.conf"}, "",
			1200 << 20, true},
		"as root": {map[string]string{unit: "[Service]\nExecStart=/usr/bin/memtrace serve\n"}, "", 0, false},
		"bounded": {map[string]string{unit: "[Service]\nCapabilityBoundingSet=~CAP_BPF " +
			"CAP_SYS_ADMIN\nMemoryMax=infinity\n"}, "CAP_BPF", 0, false},
		"taken back": {map[string]string{
			unit: "packaging/memtrace.service", dropIn: "[Service]\nAmbientCapabilities=\nAmbientCapabilities=CAP_SYS_ADMIN " +
				"cap_sys_ptrace\nCapabilityBoundingSet=CAP_SYS_ADMIN\n",
			"/usr/lib/systemd/system/memtrace.service.d/growth.conf": "packaging/memtrace-growth.conf",
		}, "CAP_DAC_READ_SEARCH", 100 << 20, false},
		"outside of what is allowed": {map[string]string{unit: "packaging/memtrace.service",
			dropIn: "[Service]\nAmbientCapabilities=CAP_SYS_ADMIN CAP_DAC_READ_SEARCH\nCapabilityBoundingSet=CAP_SYS_ADMIN\n"},
			"CAP_DAC_READ_SEARCH", 100 << 20, false},
		"of nobody, and of no capability": {map[string]string{
			unit: "[Service]\nUser=1\nAmbientCapabilities=~\nCapabilityBoundingSet=\n"},
			capabilityNames(forGrowth()), 0, false},
		"as systemd takes lines": {map[string]string{unit: "[Service]\n# CapabilityBoundingSet=\nCapabilityBoundingSet = " +
			"CAP_SYS_ADMIN \\\n# this is none of it\n CAP_SYS_PTRACE CAP_DAC_READ_SEARCH\nMemoryMax = 1G\n" +
			"StateDirectory = \"memtrace:m\"\n"}, "", 1 << 30, true},
	} {
		u := readServiceUnit(unitTree(t, test.files))
		f := rightsFor("growth", forGrowth(), &u, able(^uint64(0)), agent.Wrong)
		f.Text = strings.TrimSuffix(f.Text, ", which this user has")
		if lacks := f.State != agent.Fine; lacks != (test.lacks != "") || !strings.HasSuffix(f.Text, test.lacks) {
			t.Errorf("%s: %+v, want that it lacks %q", what, f, test.lacks)
		}
		if most, _ := u.memory(); most != test.memory || u.makes("/var/lib/memtrace") != test.folders {
			t.Errorf("%s: %d bytes, folder %v", what, most, u.makes("/var/lib/memtrace"))
		}
	}
	if u := readServiceUnit(unitTree(t, map[string]string{dropIn: "packaging/memtrace-growth.conf"})); u.file != "" {
		t.Errorf("a drop-in without a unit counts: %+v", u)
	}
}

// able is a user with some capabilities, who could have all.
func able(effective uint64) *surroundings {
	return &surroundings{sets: capabilitySets{effective: effective, bounding: ^uint64(0)}}
}

// Lines of a unit's capabilities come to what systemd makes of them (systemd.exec(5)).
func TestCapabilityLines(t *testing.T) {
	const search, ptrace, bpf, all = 1 << 2, 1 << 19, 1 << 39, ^uint64(0)
	for _, test := range []struct {
		lines   []string
		initial uint64
		want    uint64 // of those three
	}{
		{nil, all, search | ptrace | bpf}, {nil, 0, 0},
		{[]string{""}, all, 0}, {[]string{"", "CAP_BPF"}, all, bpf}, {[]string{"~"}, 0, search | ptrace | bpf},
		{[]string{"CAP_BPF CAP_SYS_PTRACE", "cap_dac_read_search"}, all, search | ptrace | bpf},
		{[]string{"CAP_BPF CAP_SYS_PTRACE", "~CAP_BPF"}, all, ptrace},
		{[]string{"~CAP_BPF", "~CAP_SYS_PTRACE"}, all, search},
		{[]string{"~CAP_BPF", "CAP_BPF"}, all, search | ptrace | bpf},
		{[]string{"CAP_NET_ADMIN", "~CAP_BPF"}, 0, 0}, {[]string{"~CAP_NET_ADMIN"}, all, search | ptrace | bpf},
		{[]string{"CAP_BPF", "CAP_NET_ADMIN"}, all, bpf}, {[]string{"~CAP_BPF"}, 0, search | ptrace},
	} {
		if got := capabilityBits(test.lines, test.initial) & (search | ptrace | bpf); got != test.want {
			t.Errorf("%q: %x, want %x", test.lines, got, test.want)
		}
	}
}

// What this user has is enough where there is no unit; where there is one, it is the unit that has to have it.
func TestRightsOfUserAndUnit(t *testing.T) {
	all := ^uint64(0)
	alone := readServiceUnit(unitTree(t, map[string]string{
		"/etc/systemd/system/memtrace.service": "packaging/memtrace.service",
	}))
	for what, test := range map[string]struct {
		unit serviceUnit
		own  uint64
		want agent.State
		text string
	}{
		"root":                {serviceUnit{}, all, agent.Fine, "this user has"},
		"a user":              {serviceUnit{}, 0, agent.Wrong, "this user lacks"},
		"root, and a unit":    {alone, all, agent.Wrong, "doesn't give CAP_DAC_READ_SEARCH"},
		"a user, and a unit":  {alone, 0, agent.Wrong, "nor has this user"},
		"CAP_SYS_ADMIN alone": {serviceUnit{}, 1 << capSysAdmin, agent.Wrong, "lacks CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE"},
	} {
		f := rightsFor("growth", forGrowth(), &test.unit, able(test.own), agent.Wrong)
		if f.State != test.want || !strings.Contains(f.Text, test.text) || (f.Remedy == "") != (test.want == agent.Fine) {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// A remedy gives what is missing, and can be had: root in a container is not sent to root.
func TestRemediesOfRights(t *testing.T) {
	all := ^uint64(0)
	ptrace := []capability{{capPtrace, "CAP_SYS_PTRACE", ""}}
	admin := []capability{{39, "CAP_BPF", ""}, {capSysAdmin, "CAP_SYS_ADMIN", ""}}
	none, grown := serviceUnit{}, serviceUnit{dropIns: []string{"a.conf", "growth.conf"}}
	for what, test := range map[string]struct{ got, want, not string }{
		"no drop-in has it": {none.remedy(pssOfAll, ptrace), "AmbientCapabilities=CAP_SYS_PTRACE", "growth.conf"},
		"growth":            {none.remedy("growth", admin[:1]), "memtrace.service.d/growth.conf", "Ambient"},
		"both": {none.remedy("growth", append(ptrace, admin[0])), "growth.conf, then AmbientCapabilities=CAP_SYS_PTRACE",
			"comes last"},
		"an older kernel": {none.remedy(tracesOnAlerts, admin), "trace.conf, with # removed from its lines of CAP_SYS_ADMIN",
			"Ambient"},
		"it has the drop-in": {grown.remedy("growth", admin[:1]), "AmbientCapabilities=CAP_BPF and " +
			"CapabilityBoundingSet=CAP_BPF in its section [Service], in a file whose name comes last", "packaging"},
		"another one": {grown.remedy(tracesOnAlerts, admin), "packaging/systemd/memtrace-trace.conf", "Ambient"},
	} {
		if !strings.Contains(test.got, test.want) || test.not != "" && strings.Contains(test.got, test.not) {
			t.Errorf("%s: %q", what, test.got)
		}
	}
	const asRoot = "as root"
	for what, test := range map[string]struct {
		s    surroundings
		want string
	}{
		"a user": {*able(0), asRoot}, "a container": {surroundings{}, "for a container: --cap-add="},
		"a user namespace": {surroundings{sets: capabilitySets{all, all}, inUserSpace: true}, "outside of this user namespace"},
		"a filter":         {surroundings{sets: capabilitySets{all, all}, filtered: []string{"bpf"}}, "seccomp=FILE"},
	} {
		f := rightsFor("growth", forGrowth(), &serviceUnit{}, &test.s, agent.Wrong)
		if f.State != agent.Wrong || !strings.Contains(f.Remedy, test.want) || test.want != asRoot &&
			strings.Contains(f.Remedy, asRoot) {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// The unit's user can't read what only root may, and has a folder for recordings by StateDirectory, or where he may
// write.
func TestExamineUnitUser(t *testing.T) {
	const base, more = "/etc/systemd/system/memtrace.service", "/run/systemd/system/memtrace.service.d/a.conf"
	tree := unitTree(t, map[string]string{base: "packaging/memtrace.service", "/etc/memtrace/memtrace.yaml": "watch_top: 1"})
	file := filepath.Join(tree, "/etc/memtrace/memtrace.yaml")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	unit, grown := readServiceUnit(tree), serviceUnit{}
	for _, test := range []struct{ more, data, want string }{
		{"", "/var/lib/memtrace", file + ", StateDirectory"},
		{"packaging/memtrace-growth.conf", "/var/lib/memtrace", ""},
		{"packaging/memtrace-growth.conf", "/var/lib/memtrace/sub", ""},
		{"packaging/memtrace-growth.conf", "/var/lib/memtraces", "StateDirectory"},
		{"[Service]\nSupplementaryGroups=" + gid, "", ""},
		{"[Service]\nDynamicUser=no\nUser=4242\nGroup=" + gid, "", ""},
		{"[Service]\nDynamicUser=no\nUser=4242", "", file},
		{"[Service]\nDynamicUser=no\nUser=0", own + "/a", "StateDirectory"}, // ProtectSystem=strict
		{"[Service]\nDynamicUser=no\nUser=0\nReadWritePaths=/tmp/else -" + own, own + "/a", ""},
		{"[Service]\nDynamicUser=no\nUser=0\nReadWritePaths=" + own + "/ab", own + "/a", "StateDirectory"},
		{"[Service]\nReadWritePaths=" + own, own + "/a", file + ", StateDirectory"},
		{"[Service]\nDynamicUser=no\nUser=0\nProtectSystem=full", own + "/a", ""},
	} {
		u := readServiceUnit(unitTree(t, map[string]string{base: "packaging/memtrace.service", more: test.more}))
		if test.more == "packaging/memtrace-growth.conf" {
			grown = u
		}
		var found []string
		for _, f := range examineUnitUser(&agent.Examined{Files: []string{file}, Data: test.data}, &u) {
			if f.State != agent.Wrong || f.Remedy == "" {
				t.Errorf("%q: %+v", test.more, f)
			}
			for _, text := range []string{file, "StateDirectory"} {
				if strings.Contains(f.Text, text) {
					found = append(found, text)
				}
			}
		}
		if got := strings.Join(found, ", "); got != test.want {
			t.Errorf("%q, %s: wrong is %q, want %q", test.more, test.data, got, test.want)
		}
	}
	owner := serviceUnit{settings: map[string][]string{"User": {uid}}}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		unit *serviceUnit
		want bool
	}{{&unit, true}, {&owner, false}} {
		user := test.unit.user()
		if at := closedAt(file, &user); (at == file) != test.want {
			t.Errorf("%+v is kept out at %q", user, at)
		}
	}
	x := agent.Examined{Data: "/var/lib/memtrace"}
	closed := func() []agent.Finding {
		return []agent.Finding{{What: agent.DataFolder, State: agent.Wrong, NotAllowed: true}}
	}
	for _, test := range []struct {
		unit *serviceUnit
		want agent.State
	}{{&unit, agent.Wrong}, {&grown, agent.Fine}} {
		if out := leftToUnit(&x, test.unit, closed()); out[0].State != test.want {
			t.Errorf("%s: %+v", test.unit.file, out)
		}
	}
}

// A kernel that lacks something keeps growth from being watched; one that doesn't let this user look may have it.
func TestExamineFeatures(t *testing.T) {
	of := func(name string, err error) tracer.Feature {
		return tracer.Feature{Name: name, Since: "9.9", Probe: func() error { return err }}
	}
	out := examineFeatures([]tracer.Feature{of("a", nil), of("b", tracer.ErrNotSupported), of("c", tracer.ErrNotPermitted),
		of("d", tracer.ErrNotPermitted), of("e", nil)}, able(0))
	want := map[agent.State]string{agent.Fine: "has a, e", agent.Less: "can't tell whether it has c, d",
		agent.Wrong: tracer.ErrNotSupported.Error()}
	if len(out) != len(want) {
		t.Errorf("%+v", out)
	}
	for _, f := range out {
		if !strings.Contains(f.Text, want[f.State]) || f.NotAllowed != (f.State == agent.Wrong) {
			t.Errorf("%+v", f)
		}
	}
	all := ^uint64(0)
	for _, s := range []*surroundings{able(all), {sets: capabilitySets{all, all}, filtered: []string{"bpf"}}} {
		out := examineFeatures([]tracer.Feature{of("a", tracer.ErrNotPermitted)}, s)
		if f := out[0]; f.State != agent.Wrong || !f.NotAllowed || f.Remedy == "" || strings.Contains(f.Remedy, "as root") {
			t.Errorf("refused to who has all capabilities: %+v", out)
		}
	}
	if out := examineFeatures([]tracer.Feature{of("a", tracer.ErrNotPermitted)}, &surroundings{}); out[0].State !=
		agent.Less || !strings.Contains(out[0].Remedy, "--cap-add") {
		t.Errorf("in a container: %+v", out)
	}
}

// A limit that is too small for all tracers is told, and one that isn't is none.
func TestExamineMemoryLimit(t *testing.T) {
	x := agent.Examined{Watched: 2, Memory: 400 << 20}
	unit := serviceUnit{file: "u", settings: map[string][]string{"MemoryMax": {"100M"}}}
	if f := examineMemory(&x, &unit); f[0].State != agent.Less || !strings.Contains(f[0].Remedy, "400 MiB") {
		t.Errorf("%+v", f)
	}
	for _, most := range []string{"1G", "infinity", "", "99.9%"} { // never what bounds this test
		unit.settings["MemoryMax"] = []string{most}
		if f := examineMemory(&x, &unit); f[0].State != agent.Fine || !strings.Contains(f[0].Text, "u ") &&
			!strings.Contains(f[0].Text, " u is") {
			t.Errorf("%q: %+v", most, f)
		}
	}
	unit.settings["MemoryMax"] = []string{"0.001%"}
	if f := examineMemory(&x, &unit); f[0].State != agent.Wrong || !strings.Contains(f[0].Text, "begins with so little") {
		t.Errorf("a share: %+v", f)
	}
	unit.settings["MemoryMax"], unit.settings["MemoryHigh"] = []string{"1G"}, []string{"200M"}
	if f := examineMemory(&x, &unit); f[0].State != agent.Less ||
		!strings.Contains(f[0].Text, "MemoryHigh of u is 200 MiB") {
		t.Errorf("what slows it down: %+v", f)
	}
	for remedy, x := range map[string]agent.Examined{
		"lower max_watched: the kernel kills tracers":     {Watched: 1, Memory: 300 << 20},
		"raise it to 300 MiB: the kernel kills tracers":   {Traces: true, Memory: 300 << 20},
		"raise it to 300 MiB: the kernel kills the agent": {Memory: 300 << 20},
	} {
		if f := examineMemory(&x, &unit); !strings.Contains(f[0].Remedy, remedy) {
			t.Errorf("%+v, want %q", f, remedy)
		}
	}
	for want, x := range map[string]agent.Examined{
		"it takes 1 MiB at most": {Memory: 1 << 20}, "with 1 tracer at its most it takes 1 MiB": {Memory: 1 << 20, Watched: 1},
		"with a trace at its most it takes 1 MiB":                 {Memory: 1 << 20, Traces: true},
		"with 2 tracers and a trace at their most it takes 1 MiB": {Memory: 1 << 20, Watched: 2, Traces: true},
	} {
		if got := mostText(&x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
