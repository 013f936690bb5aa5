//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer"
)

// mapperAnswer is what testdata/programs/regions.c says of one of its functions.
type mapperAnswer struct {
	Function      string `json:"function"`
	Kind          string `json:"kind"`
	LiveBytes     uint64 `json:"live_bytes"`
	LiveCount     uint64 `json:"live_count"`
	MappedBytes   uint64 `json:"mapped_bytes"`
	MappedCount   uint64 `json:"mapped_count"`
	UnmappedBytes uint64 `json:"unmapped_bytes"`
	ResidentBytes int64  `json:"resident_bytes"`
}

type regionsAnswer struct {
	PID     int            `json:"pid"`
	Regions []mapperAnswer `json:"regions"`
	Child   *regionsAnswer `json:"child"`
}

// regionErrors compares a process's regions with what it says of itself.
func regionErrors(r *report.Report, want regionsAnswer, isChild bool) (problems []string) {
	got := make(map[string]report.Region)
	for _, g := range r.Regions {
		if g.PID == want.PID {
			got[g.Function] = g
		}
	}
	for _, w := range want.Regions {
		g := got[w.Function]
		have := mapperAnswer{w.Function, g.Kind, g.LiveBytes, g.LiveCount, g.MappedBytes, g.MappedCount, g.UnmappedBytes, int64(g.ResidentBytes)}
		private := w.Kind == "anon" || w.Kind == "brk"
		if w.ResidentBytes < 0 || isChild && !private { // a child has none of its parent's page tables for shared memory
			have.ResidentBytes = w.ResidentBytes
		}
		if w.LiveCount == 0 { // nobody may have looked while it was there
			have.Kind = w.Kind
		}
		if have != w {
			problems = append(problems, fmt.Sprintf("process %d: %s:\n got %+v\nwant %+v", want.PID, w.Function, have, w))
		}
	}
	return problems
}

func (c *child) regions(t *testing.T) (a regionsAnswer) {
	t.Helper()
	text, err := json.Marshal(c.answer)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || len(a.Regions) == 0 || a.Child == nil {
		t.Fatalf("the program's answer has no regions: %v", err)
	}
	return a
}

// letGoFirst: on Linux 5.10 each probe has a program of its own, which takes longer to load in an emulator than a child is
// held for; what it maps then is not seen.
func letGoFirst(r *report.Report) bool {
	return r.Tracer.Attach == string(tracer.Perf) &&
		slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasSuffix(w, errTooSlow.Error()) })
}

// TestRegions maps memory in every way, and compares call sites, sizes and what is resident.
func TestRegions(t *testing.T) {
	t.Parallel()
	ways := [][]string{nil, {"--sample-bytes", "100000"}}
	for _, m := range mechanismsHere(t)[1:] { // the first is what nil chooses
		switch m {
		case tracer.Multi:
			ways = append(ways, []string{"--attach", string(m), "--unwind", "fp"})
		case tracer.PerfCookie:
			ways = append(ways, []string{"--attach", string(m)})
		}
	}
	for _, flags := range ways {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			t.Parallel()
			c := program(t, "regions")
			tr := attach(t, c.cmd.Process.Pid, append(flags, "--top", "0")...)
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			want := c.regions(t)
			problems := regionErrors(&r, want, false)
			if letGoFirst(&r) {
				t.Log("the child was let go before it had its probes, and the Report says so")
			} else {
				problems = append(problems, regionErrors(&r, *want.Child, true)...)
			}
			for _, problem := range problems {
				t.Error(problem)
			}
			checkAnonMmap(t, &r)
			if err := c.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkAnonMmap wants the other anonymous memory to be what the regions explain, and the rest.
func checkAnonMmap(t *testing.T, r *report.Report) {
	t.Helper()
	for i := range r.Processes {
		p := &r.Processes[i]
		var own uint64
		for _, g := range r.Regions {
			if g.PID == p.PID && (g.Kind == "anon" || g.Kind == "brk") && !g.Allocator {
				own += g.ResidentBytes
			}
		}
		if p.AnonMmap.Traced+p.AnonMmap.Untraced != p.RSSBy.AnonMmap {
			t.Errorf("process %d: %+v don't add up to %d", p.PID, p.AnonMmap, p.RSSBy.AnonMmap)
		}
		if p.AnonMmap.Traced != own || own == 0 {
			t.Errorf("process %d: %d bytes of anonymous memory lie in mappings that were seen being made, their sites hold %d", p.PID, p.AnonMmap.Traced, own)
		}
	}
}

// TestRegionsAtExit: of a program that ran from its start, what it had mapped
// to its end is told. How large a System V segment was nobody may have asked in time.
func TestRegionsAtExit(t *testing.T) {
	t.Parallel()
	c, r := runWith(t, []string{"--top", "0"}, testProgram("regions"))
	want, got := c.regions(t), make(map[string]report.Region)
	for _, g := range r.Regions {
		if g.PID == want.PID {
			got[g.Function] = g
		}
	}
	for _, w := range want.Regions {
		g := got[w.Function]
		if g.LiveCount != w.LiveCount || g.MappedCount != w.MappedCount {
			t.Errorf("%s: %d live of %d, want %d of %d", w.Function, g.LiveCount, g.MappedCount, w.LiveCount, w.MappedCount)
		}
		if w.Kind != "shm" && (g.LiveBytes != w.LiveBytes || g.MappedBytes != w.MappedBytes || g.UnmappedBytes != w.UnmappedBytes) {
			t.Errorf("%s:\n got %+v\nwant %+v", w.Function, g, w)
		}
	}
}

// TestGoProgram: of a program without an allocator it is told where its memory is, and what of it grew.
func TestGoProgram(t *testing.T) {
	t.Parallel()
	c, err := startCommand(t, exec.Command(testProgram("bare")))
	if err != nil {
		t.Fatal(err)
	}
	tr := attach(t, c.cmd.Process.Pid, "--top", "0")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	p := &r.Processes[0]
	growth := checkGrowth(t, p)
	heap, rss := int64(c.answer["heap_growth"].(float64)), int64(c.answer["rss"].(float64))
	t.Logf("its runtime has %d bytes of heap more, anonymous memory grew by %d; RSS is %d, by its own reading %d", heap, growth, p.Usage.RSS, rss)
	if heap < 63<<20 || growth < heap || growth > heap+16<<20 {
		t.Errorf("anonymous memory grew by %d bytes; its runtime has %d bytes of heap more", growth, heap)
	}
	if diff := int64(p.Usage.RSS) - rss; max(diff, -diff) > 2<<20 {
		t.Errorf("RSS is %d, by the program's own reading %d", p.Usage.RSS, rss)
	}
	if r.Events.FaultMinor == 0 || r.Events.Alloc != 0 || len(r.Leaks) != 0 {
		t.Errorf("events %+v, leaks %v", r.Events, r.Leaks)
	}
	if warnings := strings.Join(r.Warnings, "\n"); !strings.Contains(warnings, "its allocations are not traced") || !strings.Contains(warnings, "docs/languages.md") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// checkGrowth: nothing is said of a process's heap, and its anonymous memory grew by the 64 MiB of testdata/programs/bare.go.
func checkGrowth(t *testing.T, p *report.Process) (growth int64) {
	t.Helper()
	checkMappings(t, p)
	for _, m := range p.Mappings {
		if strings.HasPrefix(m.Name, "[anon") && m.Perms == "rw-p" {
			growth += m.GrowthBytes
		}
	}
	if growth < 64<<20 || growth > 80<<20 {
		t.Errorf("anonymous memory grew by %d bytes, by 64 MiB and little more was wanted", growth)
	}
	return growth
}

func checkMappings(t *testing.T, p *report.Process) {
	t.Helper()
	var resident uint64
	for _, m := range p.Mappings {
		resident += m.ResidentBytes
	}
	if !p.Unprobed || len(p.Allocators) != 0 || p.Usage.RSS == 0 || resident != p.Usage.RSS || p.RSSBy.Sum() != resident {
		t.Errorf("unprobed %v, allocators %q: mappings hold %d resident bytes, RSS is %d, its parts %d",
			p.Unprobed, p.Allocators, resident, p.Usage.RSS, p.RSSBy.Sum())
	}
}
