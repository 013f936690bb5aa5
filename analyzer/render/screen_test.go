package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// pooledReport is the service with 15 names of pools.
func pooledReport() *report.Report {
	r := serviceReport()
	for i := range 15 {
		r.Processes[0].Pools = append(r.Processes[0].Pools,
			report.Pool{Name: fmt.Sprintf("context_%d", i), Pools: i + 1, LiveBytes: uint64(100-i) << 10, LiveCount: 12})
	}
	return r
}

// manyProcessesReport is 16 of the service, of which 4 have ended.
func manyProcessesReport() *report.Report {
	r := pooledReport()
	for i := 1; i < 16; i++ {
		proc := r.Processes[0]
		proc.PID += i
		proc.Usage.RSS += uint64(i) << 20
		proc.Exited = i%4 == 3
		r.Processes = append(r.Processes, proc)
	}
	return r
}

func TestScreenFitsRows(t *testing.T) {
	all := fixtures()
	all["pooled"], all["crowded"] = pooledReport(), manyProcessesReport()
	for name, r := range all {
		for rows := 0; rows <= 80; rows++ {
			for _, width := range []int{20, 80, 160} {
				lines := Screen(r, Options{Width: width, Top: 20}, rows)
				if len(lines) > rows {
					t.Fatalf("%s: %d lines on %d rows", name, len(lines), rows)
				}
				for _, line := range lines {
					if columns(line) > width || strings.ContainsAny(line, "\n\r\x1b") {
						t.Fatalf("%s: bad line %q", name, line)
					}
				}
			}
		}
	}
}

func TestScreenShowsWhatMatters(t *testing.T) {
	lines := Screen(serviceReport(), Options{Width: 80}, 24)
	if len(lines) != 24 {
		t.Errorf("%d lines on 24 rows", len(lines))
	}
	out := strings.Join(lines, "\n")
	for _, want := range []string{"service (pid 4242)", "64.0 MiB", "session_new", "growing", "nothing lost", "5 call sites, no room for them"} {
		if !strings.Contains(out, want) {
			t.Errorf("24 rows lack %q:\n%s", want, out)
		}
	}
}

// No leak is left out where there is room for it.
func TestScreenUsesItsRows(t *testing.T) {
	const leak = 5 // lines, at most
	r := serviceReport()
	r.Sites, r.SitesMore = r.Sites[:1], 0
	for len(r.Leaks) < 4 {
		r.Leaks = append(r.Leaks, r.Leaks[0])
	}
	cut := 0
	for rows := 12; rows <= 80; rows++ {
		lines := Screen(r, Options{Width: 80}, rows)
		blank := 0
		for _, line := range lines {
			if strings.TrimSpace(line) == "" {
				blank++
			}
		}
		if strings.Contains(strings.Join(lines, "\n"), "more leak") {
			cut++
			if blank > 2+leak {
				t.Errorf("%d of %d rows are blank, and leaks are left out", blank, rows)
			}
		}
	}
	if cut == 0 || cut > 40 {
		t.Errorf("leaks are left out on %d of 69 heights", cut)
	}
}

// TestScreenWithoutAllocations: mappings stand where sites would, in however few lines.
func TestScreenWithoutAllocations(t *testing.T) {
	for rows := 10; rows <= 40; rows++ {
		lines := Screen(unprobedReport(), Options{Width: 80}, rows)
		text := strings.Join(lines, "\n")
		if len(lines) > rows || !strings.Contains(text, "nothing lost") {
			t.Errorf("%d rows: %d lines\n%s", rows, len(lines), text)
		}
		if rows >= 16 && (!strings.Contains(text, "[anon: Go: heap]") || strings.Contains(text, "no allocation seen yet")) {
			t.Errorf("%d rows show no mapping:\n%s", rows, text)
		}
	}
}

// Of regions and pools there are as many rows as fit, the sites' table keeps
// two of its own, and a title says how many stay out.
func TestScreenShowsRegionsAndPools(t *testing.T) {
	full := Screen(pooledReport(), Options{Width: 80}, 80)
	for _, want := range []string{
		"MAPPED OUTSIDE THE ALLOCATOR  2 of 5 call sites",
		"REGION   RES MAPPED COUNT      Δ CALLS  KIND FUNCTION",
		"    #1 9.00M  16.0M     2 +8.00M     2 memfd ring_open",
		"POOLS",
		" LIVE COUNT POOLS NAME",
		" 100K    12     1 context_0",
		"86.0K    12    15 context_14",
	} {
		if !slices.Contains(full, want) {
			t.Errorf("80 rows lack %q:\n%s", want, strings.Join(full, "\n"))
		}
	}
	for rows := 30; rows <= 80; rows++ {
		text := strings.Join(Screen(pooledReport(), Options{Width: 80}, rows), "\n")
		for _, want := range []string{"session_new", "cache_fill", "ring_open", "context_0", "growing"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d rows lack %q:\n%s", rows, want, text)
			}
		}
		shown := strings.Count(text, "context_")
		if title := fmt.Sprintf("\nPOOLS  %d of 15 names\n", shown); shown < 15 && !strings.Contains(text, title) {
			t.Errorf("%d rows show %d pools and lack %q:\n%s", rows, shown, title, text)
		}
	}
	if narrow := strings.Join(Screen(pooledReport(), Options{Width: 80, Top: 1}, 80), "\n"); !strings.Contains(narrow, "POOLS  1 of 15 names") {
		t.Errorf("--top 1 shows more than one:\n%s", narrow)
	}
}

// Many processes are listed, those that run first, and leave room for tables.
func TestScreenListsManyProcesses(t *testing.T) {
	text := strings.Join(Screen(manyProcessesReport(), Options{Width: 80}, 24), "\n")
	for _, want := range []string{
		"16 processes  traced 20.0 s", " PID   RSS   PSS  LIVE COUNT   RES ALLOCS PROCESS\n4256 78.0M", "4242", "and 11 more processes",
		"session_new", "cache_fill", "ring_open", "growing", "nothing lost",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("24 rows lack %q:\n%s", want, text)
		}
	}
	tall := strings.Join(Screen(manyProcessesReport(), Options{Width: 80}, 80), "\n")
	if first, last := strings.Index(tall, "\n4242 "), strings.Index(tall, "service, exited\n"); first < 0 || last < first {
		t.Errorf("processes that ended don't come after those that run:\n%s", tall)
	}
	if two := strings.Join(Screen(lossyReport(), Options{Width: 80}, 80), "\n"); !strings.Contains(two, "gateway (pid 100)") {
		t.Errorf("two processes are not described where there is room:\n%s", two)
	}
}
