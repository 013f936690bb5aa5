package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

// groups is a copy of the control groups that a kernel had.
func groups(t *testing.T, tree string) (root string, o Options) {
	t.Helper()
	root = t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("../../testdata/kernels", tree))); err != nil {
		t.Fatal(err)
	}
	return root, Options{Proc: newProc(t).dir, Sys: root, Cgroup: root}
}

func put(t *testing.T, text string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func watchGroups(t *testing.T, text string, o Options) *Watch {
	t.Helper()
	conditions, err := threshold.ParseList(text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(conditions, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// TestGroupFigures reads each sort of figure of a control group once.
func TestGroupFigures(t *testing.T) {
	root, o := groups(t, "6.18/cgroup2")
	job := filepath.Join(root, "job")
	put(t, "41943040\n", job, "memory.current")
	put(t, "83886080\n", job, "memory.max")
	put(t, "inactive_file 10485760\nanon 1\n", job, "memory.stat")
	put(t, "1048576\n", job, "memory.swap.current")
	put(t, "4194304\n", job, "memory.swap.max")
	put(t, "some avg10=12.50 avg60=2.00 avg300=3.00 total=4\nfull avg10=5.00 avg60=6.00 avg300=7.00 total=8\n", job, "memory.pressure")
	for text, want := range map[string]float64{
		"used(cgroup:/job)>1MiB": 40 << 20, "used(cgroup:/job)>10%": 50, "working(cgroup:/job)>1": 30 << 20, "working(cgroup:/job)>1%": 37.5,
		"swap(cgroup:/job)>1": 1 << 20, "swap(cgroup:/job)>1%": 25, "psi.full.avg60(cgroup:/job)>1": 6,
	} {
		events := watchGroups(t, text, o).Check(begin)
		if len(events) != 1 || events[0].Err != nil || events[0].Figure != want || !events[0].Crossing {
			t.Errorf("%s: %+v, want %v", text, events, want)
		}
	}
	put(t, "max\n", job, "memory.max")
	for _, text := range []string{"used(cgroup:/job)>10%", "used(cgroup:/nobody)>1", "used(cgroup:/)>1"} { // no limit, no group, a root that has no sizes
		if events := watchGroups(t, text, o).Check(begin); len(events) != 1 || events[0].State != Unknown || events[0].Err == nil {
			t.Errorf("%s: %+v", text, events)
		}
	}
}

// TestGroupKills: those that were killed before the watch began don't count.
func TestGroupKills(t *testing.T) {
	root, o := groups(t, "6.18/cgroup2")
	w := watchGroups(t, "oom_kills(cgroup:/job)>0", o)
	for i, c := range []struct{ events, want string }{
		{"oom_kill 7\n", ""}, {"oom_kill 7\n", ""}, {"oom_kill 9\n", "crossed 2!"}, {"", "unknown"},
	} {
		put(t, c.events, root, "job/memory.events")
		if got := check(w, begin); got != c.want {
			t.Errorf("look %d: %q, want %q", i, got, c.want)
		}
	}
}

func TestGroupsOfVersion1(t *testing.T) {
	_, o := groups(t, "5.10/cgroup1")
	w := watchGroups(t, "used(cgroup:/job)>1,oom_kills(cgroup:/job)>=0,psi.some.avg10(cgroup:/job)>1", o)
	if got := check(w, begin); len(got) == 0 || len(w.Unknown()) != 1 { // it has no pressure
		t.Errorf("%q, unknown %v", got, w.Unknown())
	}
}

func TestBadGroupConditions(t *testing.T) {
	_, o := groups(t, "6.18/cgroup2")
	for _, text := range []string{"used(cgroup:job)>1", "rss(cgroup:/job)>1", "oom_kills(cgroup:/job)>1MiB", "psi.some(cgroup:/job)>1", "used(cgroup:/job)>3s"} {
		conditions, err := threshold.ParseList(text)
		if err != nil {
			t.Fatal(err)
		}
		var usage *UsageError
		if _, err := New(conditions, o); !errors.As(err, &usage) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
