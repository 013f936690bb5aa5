package live

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
)

const kernels = "../../../../../testdata/kernels"

// eachKernel runs a test on what each kernel said; see testdata/kernels/README.md.
func eachKernel(t *testing.T, fn func(t *testing.T, tree string)) {
	t.Helper()
	trees, err := filepath.Glob(kernels + "/*/proc")
	if err != nil || len(trees) < 5 {
		t.Fatalf("fixtures: %v, %v", trees, err)
	}
	for _, proc := range trees {
		tree := filepath.Dir(proc)
		t.Run(filepath.Base(tree), func(t *testing.T) { fn(t, tree) })
	}
}

func file(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// number is the first number after a word in a file's text.
func number(t *testing.T, text, after string) int64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + after + `\s*([0-9]+)`).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("no %q in %.200q", after, text)
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCgroupsOfEachKernel(t *testing.T) {
	eachKernel(t, func(t *testing.T, tree string) {
		s := open(t, Options{Proc: tree + "/proc", Sys: tree + "/sys", Cgroup: tree + "/cgroup2"})
		snapshot := read(t, s, top.Want{View: top.Groups})
		i := slices.IndexFunc(snapshot.Groups, func(g top.Group) bool { return g.Path == "/job" })
		if i < 0 {
			t.Fatalf("no /job in %+v", snapshot.Groups)
		}
		g, job := snapshot.Groups[i], tree+"/cgroup2/job"
		stat, events := file(t, job, "memory.stat"), file(t, job, "memory.events")
		for name, c := range map[string]struct {
			got  top.Figure
			want int64
		}{
			"current": {g.Current, number(t, file(t, job, "memory.current"), "")},
			"max":     {g.Max, number(t, file(t, job, "memory.max"), "")},
			"high":    {g.High, number(t, file(t, job, "memory.high"), "")},
			"working": {g.Working, number(t, file(t, job, "memory.current"), "") - number(t, stat, "inactive_file")},
			"anon":    {g.Anon, number(t, stat, "anon")},
			"file":    {g.File, number(t, stat, "file")},
			"oom":     {g.OOM, number(t, events, "oom")},
			"killed":  {g.Killed, number(t, events, "oom_kill")},
			"psi":     {g.Some, 0},
		} {
			if c.got != top.Of(c.want) {
				t.Errorf("%s is %+v, want %d", name, c.got, c.want)
			}
		}
		if _, err := os.Stat(job + "/memory.peak"); err != nil { // before Linux 5.19
			if g.Peak.State != top.Unsupported {
				t.Errorf("a peak that this kernel does not tell: %+v", g.Peak)
			}
		} else if !g.Peak.Known() {
			t.Errorf("peak: %+v", g.Peak)
		}
	})
}

func TestMachineOfEachKernel(t *testing.T) {
	eachKernel(t, func(t *testing.T, tree string) {
		s := open(t, Options{Proc: tree + "/proc", Sys: tree + "/sys", Cgroup: tree + "/cgroup2"})
		snapshot := read(t, s, top.Want{View: top.Memory})
		meminfo := file(t, tree, "proc", "meminfo")
		total := number(t, meminfo, "MemTotal:") << 10
		if h := snapshot.Machine; h.Total != top.Of(total) || h.Available != top.Of(number(t, meminfo, "MemAvailable:")<<10) || !h.PressureSome.Known() {
			t.Errorf("%+v", h)
		}
		var sum int64
		for _, e := range snapshot.Books {
			if e.Depth == 0 {
				sum += e.Size.N
			}
		}
		if sum != total {
			t.Errorf("the books come to %d of %d", sum, total)
		}
		var kernelThread, asleep int
		for _, p := range snapshot.Processes {
			switch {
			case p.Kernel:
				kernelThread++
				if p.RSS.State != top.None || p.PSS.State != top.None {
					t.Errorf("kernel thread has memory: %+v", p)
				}
			case p.State == 'Z':
				if p.RSS.State != top.None {
					t.Errorf("zombie has memory: %+v", p)
				}
			case p.Name == "sleep":
				asleep++
			}
		}
		if kernelThread == 0 || asleep != 3 {
			t.Errorf("%d kernel threads and %d sleeps, want some and 3", kernelThread, asleep)
		}
	})
}

// Two nodes, of which the second is a copy of the first: the pages of the
// processes are all on the first.
func TestTwoNodes(t *testing.T) {
	eachKernel(t, func(t *testing.T, tree string) {
		sys := t.TempDir()
		node0 := file(t, tree, "sys/devices/system/node/node0/meminfo")
		for id := range 2 {
			from, to := tree+"/sys/devices/system/node/node0", fmt.Sprintf("%s/devices/system/node/node%d", sys, id)
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(node0, "Node 0 ", fmt.Sprintf("Node %d ", id))
			if err := os.WriteFile(to+"/meminfo", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(sys+"/devices/system/node/online", []byte("0-1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, Options{Proc: tree + "/proc", Sys: sys, Cgroup: tree + "/cgroup2"})
		snapshot := read(t, s, top.Want{View: top.NUMA})
		if len(snapshot.Nodes) != 2 || snapshot.Nodes[1].ID != 1 || snapshot.Nodes[1].Total != top.Of(number(t, node0, "Node 0 MemTotal:")<<10) {
			t.Fatalf("nodes %+v", snapshot.Nodes)
		}
		compared := 0
		for _, p := range snapshot.Processes {
			if p.Name != "sleep" || p.State == 'Z' {
				continue
			}
			var pages int64
			for _, match := range regexp.MustCompile(` N0=([0-9]+)`).FindAllStringSubmatch(file(t, tree, "proc", strconv.Itoa(p.PID), "numa_maps"), -1) {
				n, err := strconv.ParseInt(match[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				pages += n
			}
			if p.OnNode[0] != top.Of(pages*4096) || p.OnNode[1] != top.Of(0) {
				t.Errorf("process %d is on %+v, want %d pages on the first node", p.PID, p.OnNode, pages)
			}
			compared++
		}
		if compared == 0 {
			t.Error("no process to compare")
		}
	})
}

// Where the kernel counts only averages, all that rests on them is marked; where
// it counts each page, or is too old to do otherwise, nothing is.
func TestAveragedMapCountsAreMarked(t *testing.T) {
	for name, c := range map[string]struct {
		release, config string
		want            bool
	}{
		"averaged": {"6.18.1", "CONFIG_X=y\nCONFIG_NO_PAGE_MAPCOUNT=y\n", true},
		"unknown":  {"6.18.1", "", true},
		"exact":    {"6.18.1", "CONFIG_X=y\n# CONFIG_NO_PAGE_MAPCOUNT is not set\n", false},
		"old":      {"6.12.1", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			tree := t.TempDir()
			if err := os.CopyFS(tree, os.DirFS(kernels+"/6.18")); err != nil {
				t.Fatal(err)
			}
			put(t, tree+"/proc/sys/kernel/osrelease", c.release+"\n")
			if c.config != "" {
				put(t, tree+"/boot/config-"+c.release, c.config)
			}
			s := open(t, Options{Proc: tree + "/proc", Sys: tree + "/sys", Cgroup: tree + "/cgroup2"})
			known := 0
			for _, p := range read(t, s, top.Want{View: top.Processes}).Processes {
				if p.PSS.Known() && p.USS.N > 0 {
					known++
					if p.PSS.Estimated != c.want || p.USS.Estimated != c.want || p.RSS.Estimated {
						t.Errorf("%s: %+v, %+v, %+v", p.Name, p.PSS, p.USS, p.RSS)
					}
				}
			}
			components := read(t, s, top.Want{View: top.Components})
			if noted := strings.Contains(strings.Join(components.Notes, "\n"), "how often a page is mapped"); noted != c.want || known == 0 {
				t.Errorf("%d processes; notes %q", known, components.Notes)
			}
			for _, part := range components.Components {
				if part.PSS.N > 0 && part.PSS.Estimated != c.want {
					t.Errorf("%+v", part)
				}
			}
		})
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
