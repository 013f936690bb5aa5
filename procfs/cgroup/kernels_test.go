package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs"
)

// eachTree runs a test on the control groups that testdata/vm/capture took
// from each kernel; version 1 where the kernel has it.
func eachTree(t *testing.T, version int, fn func(t *testing.T, h *Hierarchy)) {
	t.Helper()
	trees, err := filepath.Glob(fmt.Sprintf("../../testdata/kernels/*/cgroup%d", version))
	if err != nil || len(trees) < 2 {
		t.Fatalf("fixtures: %v, %v", trees, err)
	}
	for _, tree := range trees {
		t.Run(filepath.Base(filepath.Dir(tree)), func(t *testing.T) {
			h, err := Open(tree)
			if err != nil || h.Version() != version {
				t.Fatal(h, err)
			}
			defer func() { _ = h.Close() }()
			fn(t, h)
		})
	}
}

// onDisk is the number in a file, by awk.
func onDisk(t *testing.T, h *Hierarchy, file, program string) string {
	t.Helper()
	out, err := exec.Command("awk", program, filepath.Join(h.Root(), file)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

const mib = 1 << 20

// TestJob2: the limits are those that testdata/vm/capture-init sets.
func TestJob2(t *testing.T) {
	eachTree(t, 2, func(t *testing.T, h *Hierarchy) {
		var g Group
		if err := h.Read("/job", &g); err != nil {
			t.Fatal(err)
		}
		for _, v := range []struct {
			name string
			got  Value
			want uint64
		}{{"max", g.Max, 32 * mib}, {"high", g.High, 24 * mib}, {"min", g.Min, mib}, {"low", g.Low, 0}, {"swap", g.SwapCurrent, 0}} {
			if v.got != (Value{Bytes: v.want, Outcome: procfs.Known}) {
				t.Errorf("%s: %+v", v.name, v.got)
			}
		}
		if !g.SwapMax.Unlimited || g.SwapMax.Outcome != procfs.Known {
			t.Errorf("swap.max: %+v", g.SwapMax)
		}
		if want := onDisk(t, h, "job/memory.current", `{print $1}`); fmt.Sprint(g.Current.Bytes) != want || g.Current.Bytes < 4*mib {
			t.Errorf("current %+v, not %s", g.Current, want)
		}
		if g.Peak.Outcome.Ok() && g.Peak.Bytes < g.Current.Bytes {
			t.Errorf("peak %+v under current %+v", g.Peak, g.Current)
		}
		// Up to Linux 5.10 the last page or more may still be in a CPU's batch.
		shmem, ok := g.Stat.Get("shmem")
		if !ok || fmt.Sprint(shmem) != onDisk(t, h, "job/memory.stat", `$1=="shmem" {print $2}`) || shmem < 4*mib-64<<10 {
			t.Errorf("shmem: %d, %v", shmem, ok)
		}
		if v, ok := g.Events.Get("oom_kill"); !ok || v != 0 || g.EventsOutcome != procfs.Known {
			t.Errorf("oom_kill: %d, %v", v, ok)
		}
		if g.PressureOutcome != procfs.Known {
			t.Errorf("pressure: %v", g.PressureOutcome)
		}
		inactive, _ := g.Stat.Get("inactive_file")
		if ws := g.WorkingSet(); !ws.Outcome.Ok() || ws.Bytes != g.Current.Bytes-inactive {
			t.Errorf("working set %+v", ws)
		}
		nodes, err := h.NUMA("/job")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(nodes, func(f NodeFigure) bool { return f.Name == "shmem" })
		if i < 0 || len(nodes[i].Nodes) != 1 || nodes[i].Nodes[0] != shmem {
			t.Errorf("numa: %v", nodes)
		}
	})
}

// TestRoot2: the root of version 2 has no sizes of its own, which is no zero.
func TestRoot2(t *testing.T) {
	eachTree(t, 2, func(t *testing.T, h *Hierarchy) {
		groups, err := h.Groups()
		if err != nil || !slices.Equal(groups, []string{"/", "/job"}) {
			t.Errorf("groups %v, %v", groups, err)
		}
		var g Group
		if err := h.Read("/", &g); err != nil {
			t.Fatal(err)
		}
		if g.Current.Outcome != procfs.NotSupported || g.Max.Outcome != procfs.NotSupported || g.StatOutcome != procfs.Known {
			t.Errorf("%+v", g)
		}
		if ws := g.WorkingSet(); ws.Outcome.Ok() {
			t.Errorf("working set %+v", ws)
		}
	})
}

func TestPeakCameWith519(t *testing.T) {
	eachTree(t, 2, func(t *testing.T, h *Hierarchy) {
		var g Group
		if err := h.Read("/job", &g); err != nil {
			t.Fatal(err)
		}
		if old := strings.Contains(h.Root(), "/5.10/"); old != (g.Peak.Outcome == procfs.NotSupported) || !old != (g.Peak.Outcome == procfs.Known) {
			t.Errorf("%+v", g.Peak)
		}
	})
}

func TestJob1(t *testing.T) {
	eachTree(t, 1, func(t *testing.T, h *Hierarchy) {
		var g Group
		if err := h.Read("/job", &g); err != nil {
			t.Fatal(err)
		}
		if g.Max != (Value{Bytes: 32 * mib, Outcome: procfs.Known}) || !g.Low.Unlimited || g.High.Outcome != procfs.NotSupported {
			t.Errorf("%+v", g)
		}
		if want := onDisk(t, h, "job/memory.usage_in_bytes", `{print $1}`); fmt.Sprint(g.Current.Bytes) != want || g.Current.Bytes < 4*mib {
			t.Errorf("current %+v, not %s", g.Current, want)
		}
		if v, ok := g.Stat.Get("shmem"); !ok || fmt.Sprint(v) != onDisk(t, h, "job/memory.stat", `$1=="shmem" {print $2}`) || v < 4*mib-64<<10 {
			t.Errorf("shmem: %d, %v", v, ok)
		}
		if v, ok := g.Events.Get("oom_kill"); !ok || v != 0 {
			t.Errorf("oom_kill: %d, %v", v, ok)
		}
		if ws := g.WorkingSet(); !ws.Outcome.Ok() || ws.Bytes > g.Current.Bytes {
			t.Errorf("working set %+v", ws)
		}
		nodes, err := h.NUMA("job")
		if err != nil || len(nodes) < 4 || nodes[0].Name != "total" {
			t.Errorf("numa: %v, %v", nodes, err)
		}
	})
}

func TestGroupThatIsNot(t *testing.T) {
	eachTree(t, 2, func(t *testing.T, h *Hierarchy) {
		var g Group
		if err := h.Read("/absent", &g); procfs.OutcomeOf(err) != procfs.Gone {
			t.Errorf("absent: %v", err)
		}
		for _, outside := range []string{"/../proc", "/../../.."} {
			if err := h.Read(outside, &g); err == nil {
				t.Errorf("%s was read", outside)
			}
		}
		if err := h.Read("/job/../job", &g); err != nil {
			t.Error(err)
		}
	})
	if _, err := Open(t.TempDir()); procfs.OutcomeOf(err) != procfs.NotSupported {
		t.Errorf("no hierarchy: %v", err)
	}
}

// TestHybrid: version 1 has the memory controller where both are mounted.
func TestHybrid(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"memory/memory.usage_in_bytes", "memory/cgroup.procs", "unified/cgroup.controllers"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("9223372036854771712\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Open(root)
	if err != nil || h.Version() != 1 {
		t.Fatal(h, err)
	}
	defer func() { _ = h.Close() }()
	if v := h.value("memory.usage_in_bytes"); !v.Unlimited {
		t.Errorf("%+v", v)
	}
}
