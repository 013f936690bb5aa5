//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"path/filepath"
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
				"cap_sys_ptrace\n",
			"/usr/lib/systemd/system/memtrace.service.d/growth.conf": "packaging/memtrace-growth.conf",
		}, "CAP_DAC_READ_SEARCH", 100 << 20, false},
	} {
		u := readServiceUnit(unitTree(t, test.files))
		f := rightsFor("growth", forGrowth(), &u, 0, agent.Wrong)
		if lacks := f.State != agent.Fine; lacks != (test.lacks != "") || !strings.HasSuffix(f.Text, test.lacks) {
			t.Errorf("%s: %+v, want that it lacks %q", what, f, test.lacks)
		}
		if u.memory() != test.memory || u.makes("/var/lib/memtrace") != test.folders {
			t.Errorf("%s: %d bytes, folder %v", what, u.memory(), u.makes("/var/lib/memtrace"))
		}
	}
	if u := readServiceUnit(unitTree(t, map[string]string{dropIn: "packaging/memtrace-growth.conf"})); u.file != "" {
		t.Errorf("a drop-in without a unit counts: %+v", u)
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
		"root, and a unit":    {alone, all, agent.Less, "doesn't give CAP_DAC_READ_SEARCH"},
		"a user, and a unit":  {alone, 0, agent.Wrong, "this user lacks"},
		"CAP_SYS_ADMIN alone": {serviceUnit{}, 1 << capSysAdmin, agent.Wrong, "lacks CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE"},
	} {
		f := rightsFor("growth", forGrowth(), &test.unit, test.own, agent.Wrong)
		if f.State != test.want || !strings.Contains(f.Text, test.text) || (f.Remedy == "") != (test.want == agent.Fine) {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// The unit's user can't read what only root may, and has a folder for recordings by StateDirectory alone.
func TestExamineUnit(t *testing.T) {
	tree := unitTree(t, map[string]string{
		"/etc/systemd/system/memtrace.service": "packaging/memtrace.service", "/etc/memtrace/memtrace.yaml": "watch_top: 1",
	})
	file := filepath.Join(tree, "/etc/memtrace/memtrace.yaml")
	unit := readServiceUnit(tree)
	x := agent.Examined{Files: []string{file}, Data: "/var/lib/memtrace"}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := closedAt(file); got != file {
		t.Errorf("others are kept out at %q", got)
	}
	if out := examineUnit(&x, &unit); len(out) != 2 || !strings.Contains(out[0].Text, file) ||
		!strings.Contains(out[1].Text, "StateDirectory") {
		t.Errorf("%+v", out)
	}
	grown := readServiceUnit(unitTree(t, map[string]string{
		"/etc/systemd/system/memtrace.service":          "packaging/memtrace.service",
		"/run/systemd/system/memtrace.service.d/a.conf": "packaging/memtrace-growth.conf",
	}))
	if out := examineUnit(&x, &grown); len(out) != 0 {
		t.Errorf("%+v", out)
	}
	closed := func() []agent.Finding {
		return []agent.Finding{{What: agent.DataFolder, State: agent.Wrong, NotAllowed: true}}
	}
	for _, test := range []struct {
		unit *serviceUnit
		want agent.State
	}{{&unit, agent.Wrong}, {&grown, agent.Less}} {
		if out := madeByUnit(&x, test.unit, closed()); out[0].State != test.want {
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
		of("d", tracer.ErrNotPermitted), of("e", nil)})
	want := map[agent.State]string{agent.Fine: "has a, e", agent.Less: "can't tell: c, d",
		agent.Wrong: tracer.ErrNotSupported.Error()}
	if len(out) != len(want) {
		t.Errorf("%+v", out)
	}
	for _, f := range out {
		if !strings.Contains(f.Text, want[f.State]) || f.NotAllowed != (f.State == agent.Wrong) {
			t.Errorf("%+v", f)
		}
	}
}

// A limit that is too small for all tracers is told, and one that isn't is none.
func TestExamineMemoryLimit(t *testing.T) {
	x := agent.Examined{Watched: 2, Memory: 400 << 20}
	unit := serviceUnit{file: "u", settings: map[string][]string{"MemoryMax": {"100M"}}}
	if f := examineMemory(&x, &unit); f[0].State != agent.Less || !strings.Contains(f[0].Remedy, "400 MiB") {
		t.Errorf("%+v", f)
	}
	unit.settings["MemoryMax"] = []string{"1G"}
	if f := examineMemory(&x, &unit); f[0].State != agent.Fine {
		t.Errorf("%+v", f)
	}
}
