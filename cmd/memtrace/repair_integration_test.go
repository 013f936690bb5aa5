//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// traceUnseen traces freed_unseen, whose blocks are freed while memtrace stands
// still, and returns the last Report.
func traceUnseen(t *testing.T, env ...string) (*child, report.Report) {
	t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "build", "testdata", "freed_unseen"), "attach", fillsRings)
	cmd.Env = append(os.Environ(), env...)
	c, err := startCommand(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	tr := attach(t, c.cmd.Process.Pid, "--back-pressure", "0", "--faults", "off", "--hold=false", "--leaks")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	live := c.total(t, "live_count")
	for r := tr.report(); r.Processes[0].Heap.LiveCount < live; r = tr.report() {
		if r.Final {
			t.Fatalf("memtrace saw %d of %d blocks", r.Processes[0].Heap.LiveCount, live)
		}
	}
	return c, tr.stopBeside(c)
}

// unseen checks that all calls are accounted for, and returns what was lost of the process.
func unseen(t *testing.T, c *child, r *report.Report) *report.ProcessLoss {
	t.Helper()
	calls, e := c.total(t, "alloc")+c.total(t, "free"), r.Events
	if got := e.Alloc + e.Free + e.Lost; got != calls {
		t.Errorf("%d allocations, %d frees and %d lost are %d, the program made %d calls", e.Alloc, e.Free, e.Lost, got, calls)
	}
	l := r.Processes[0].Loss
	if l == nil || len(l.Spans) == 0 {
		t.Fatalf("the Report does not say whose events were lost: %+v", l)
	}
	if l.Events != e.Lost || l.Events == 0 {
		t.Errorf("%d events of the process lost, %d in all", l.Events, e.Lost)
	}
	var sum uint64
	for i, s := range l.Spans {
		sum += s.Events
		if s.ToNS < s.FromNS || i > 0 && s.FromNS < l.Spans[i-1].ToNS || s.ToNS > r.WindowNS {
			t.Errorf("spell %d: %+v", i, s)
		}
	}
	if sum != l.Events {
		t.Errorf("%d events in the spells, %d in all", sum, l.Events)
	}
	return l
}

// What was freed while memtrace stood still is found in the allocator's own
// records: the live heap is then the program's, and nothing of it is called leaked.
func TestMissedFreesAreFound(t *testing.T) {
	t.Parallel()
	c, r := traceUnseen(t)
	l := unseen(t, c, &r)
	const doomed, leaked = 3000, 10
	h := r.Processes[0].Heap
	if h.LiveCount != c.total(t, "live_count") || h.LiveBytes != c.total(t, "live_bytes") {
		t.Errorf("%d bytes in %d blocks live, the program says %d in %d", h.LiveBytes, h.LiveCount, c.total(t, "live_bytes"), c.total(t, "live_count"))
	}
	// Where the ring became full between the two calls of a pair of the loop, the loop's block was freed unseen, too.
	pair := seenOf(&r, "churn_loop") - (r.Events.Free - r.Events.UnmatchedFree)
	if n := l.Repaired.Count; pair > 1 || n != doomed+pair || r.Events.Repaired != n || l.DoubtfulCount != 0 {
		t.Errorf("repaired %+v (%d in all), %d in doubt, want %d, of the loop %d, and none", l.Repaired, r.Events.Repaired, l.DoubtfulCount, doomed, pair)
	}
	found := uint64(0)
	for _, leak := range r.Leaks {
		if !report.IsVerdict(leak.Kind) {
			continue
		}
		if f := siteFunctionOf(&r, leak.Site); f != "of_leaked" || leak.Kind != "definite" || leak.Doubtful {
			t.Errorf("leak of %s: %+v", f, leak)
		}
		found += leak.Count
	}
	if found != leaked {
		t.Errorf("%d leaked blocks found, the program leaked %d; of the check: %+v; warnings: %q", found, leaked, r.Processes[0].LeakCheck, r.Warnings)
	}
}

// seenOf is how many allocations of a function were seen.
func seenOf(r *report.Report, function string) (n uint64) {
	for i := range r.Sites {
		if r.Sites[i].Function == function {
			n += r.Sites[i].AllocCount
		}
	}
	return n
}

// Where the records can't be read, nothing is called definite, and all that may have been freed says so.
func TestMissedFreesOfOtherAllocatorsAreDoubted(t *testing.T) {
	t.Parallel()
	c, r := traceUnseen(t, "LD_PRELOAD="+privateLibrary(t, jemallocLib))
	l := unseen(t, c, &r)
	h := r.Processes[0].Heap
	if l.DoubtfulCount < c.total(t, "live_count") || l.DoubtfulCount != h.LiveCount || l.Repaired.Count != 0 {
		t.Errorf("%d of %d blocks in doubt, repaired %+v", l.DoubtfulCount, h.LiveCount, l.Repaired)
	}
	doubted := uint64(0)
	for _, leak := range r.Leaks {
		if !report.IsVerdict(leak.Kind) {
			continue
		}
		if leak.Kind != "possible" || !leak.Doubtful || !strings.Contains(leak.Why, "may have been freed") || leak.Confidence > 0.5 {
			t.Errorf("leak of %s: %+v", siteFunctionOf(&r, leak.Site), leak)
		}
		doubted += leak.Count
	}
	if doubted < 300 { // the allocator's caches point to many
		t.Errorf("%d blocks that nothing points to, the program freed 3000", doubted)
	}
	for _, s := range r.Sites {
		if s.LiveCount > 0 && s.DoubtfulCount != s.LiveCount {
			t.Errorf("site %s: %d of %d blocks in doubt", s.Function, s.DoubtfulCount, s.LiveCount)
		}
	}
}

func siteFunctionOf(r *report.Report, id int) string {
	for i := range r.Sites {
		if r.Sites[i].ID == id {
			return r.Sites[i].Function
		}
	}
	return "?"
}
