//go:build linux && !viewer

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs"
)

// fedBy gives each Report's Feed.
func fedBy(t *testing.T, f *feed, to *bytes.Buffer, r *report.Report) (out agent.Feed) {
	t.Helper()
	to.Reset()
	f.write(feedNews{report: r})
	if err := json.Unmarshal(to.Bytes(), &out); err != nil {
		t.Fatalf("%s: %v", to, err)
	}
	return out
}

func touchedSite(id, process int, function string, live, touched uint64) report.Site {
	return report.Site{
		ID: id, Process: process, Stack: []*report.Frame{{Function: "malloc"}, {Function: function}}, FunctionFrame: 1,
		LiveBytes: live, LiveCount: live / 4, AllocBytes: touched, AllocCount: touched / 4,
	}
}

// The same stack of two processes is one; what is told once is not told again; what was touched never falls, whatever a
// Report leaves out; and what a process held that has ended is nobody's.
func TestFeedTellsWhatChanged(t *testing.T) {
	var to bytes.Buffer
	f := newFeed(&to, thisProcess(t))
	processes := func(ended bool) []report.Process {
		return []report.Process{
			{ID: 1, PID: 71, Exe: "/bin/x", FirstTouch: &report.FirstTouch{ExplainedBytes: 12, BeforeBytes: 5, UnexplainedBytes: -1}},
			{ID: 2, PID: 72, Exited: ended, FirstTouch: &report.FirstTouch{ExplainedBytes: 8}},
		}
	}
	one := fedBy(t, f, &to, &report.Report{Processes: processes(false), Sites: []report.Site{touchedSite(1, 1, "a", 8, 8), touchedSite(2, 2, "a", 8, 16), touchedSite(3, 1, "b", 4, 4)}})
	if len(one.Frames) != 3 || len(one.Stacks) != 2 || len(one.Sites) != 2 || one.Sites[0].LiveBytes != 16 || one.Sites[0].TouchedBytes != 24 {
		t.Errorf("%+v", one)
	}
	if fmt.Sprint(one.Watched) != "[71 72]" || one.Listed != 2 || one.Missed != 0 || one.Grown != 20 || one.Before != 5 || one.Unexplained != -1 || one.Exe != "/bin/x" || one.CPUNS == 0 || one.Resident == 0 {
		t.Errorf("%+v", one)
	}
	f.refuse(77)
	two := fedBy(t, f, &to, &report.Report{Processes: processes(true), Sites: []report.Site{touchedSite(1, 1, "a", 8, 8), touchedSite(2, 2, "a", 8, 16), touchedSite(3, 1, "b", 4, 4)}})
	if len(two.Frames)+len(two.Stacks) != 0 || len(two.Sites) != 1 || two.Sites[0].LiveBytes != 8 || two.Sites[0].TouchedBytes != 24 || fmt.Sprint(two.Watched) != "[71]" || two.Listed != 2 || fmt.Sprint(two.Refused) != "[77]" {
		t.Errorf("%+v", two)
	}
	three := fedBy(t, f, &to, &report.Report{Processes: processes(true), Sites: []report.Site{touchedSite(1, 1, "a", 8, 8)}})
	if len(three.Sites) != 1 || three.Sites[0].Stack != 1 || three.Sites[0].TouchedBytes != 4 || three.Sites[0].LiveBytes != 0 || len(three.Refused) != 0 {
		t.Errorf("%+v", three)
	}
	four := fedBy(t, f, &to, &report.Report{Processes: processes(true), Sites: []report.Site{touchedSite(1, 1, "a", 8, 12)}})
	if len(four.Sites) != 1 || four.Sites[0].Stack != 0 || four.Sites[0].TouchedBytes != 28 {
		t.Errorf("%+v", four)
	}
}

func thisProcess(t *testing.T) *procfs.Process {
	t.Helper()
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// Children that are no longer listed one by one are not watched, and counted.
func TestFeedTellsWhatIsNotWatched(t *testing.T) {
	var to bytes.Buffer
	out := fedBy(t, newFeed(&to, nil), &to, &report.Report{Processes: []report.Process{
		{ID: 1, PID: 71, FirstTouch: &report.FirstTouch{}}, {ID: 2, PID: 71, Children: 77, FirstTouch: &report.FirstTouch{ChildTouches: 3}}, {ID: 3, PID: 73},
	}})
	if fmt.Sprint(out.Watched) != "[71]" || out.Listed != 3 || out.Missed != 77 {
		t.Errorf("%+v", out)
	}
}

// What a site has touched is told once, whatever it is called: as its names become known, as it prints like another one
// by then, and as it no longer does.
func TestFeedTellsATouchOnce(t *testing.T) {
	merged := func(s report.Site, ids ...int) report.Site {
		s.MergedIDs = ids
		return s
	}
	var to bytes.Buffer
	f := newFeed(&to, nil)
	told := make(map[int]agent.StackFigures)
	for i, step := range []struct {
		sites   []report.Site
		touched string // by stack, in the order in which they came
	}{
		{[]report.Site{touchedSite(5, 1, "0x1", 8, 8), touchedSite(6, 1, "0x2", 16, 16)}, "[8 16]"},
		{[]report.Site{touchedSite(5, 1, "leak", 12, 12), touchedSite(6, 1, "0x2", 16, 16)}, "[8 16 4]"},
		{[]report.Site{merged(touchedSite(5, 1, "leak", 40, 40), 6)}, "[8 16 16]"},
		{[]report.Site{merged(touchedSite(5, 1, "leak", 60, 60), 6)}, "[8 16 36]"},
		{[]report.Site{touchedSite(5, 1, "leak", 32, 32), touchedSite(6, 1, "other", 32, 32)}, "[8 16 36 4]"},
		{[]report.Site{touchedSite(5, 1, "leak", 32, 36), touchedSite(6, 1, "other", 40, 40)}, "[8 16 40 12]"},
	} {
		for _, s := range fedBy(t, f, &to, &report.Report{Sites: step.sites}).Sites {
			told[s.Stack] = s
		}
		var touched []uint64
		for n := range len(told) {
			touched = append(touched, told[n].TouchedBytes)
			if told[n].TouchedCount != told[n].TouchedBytes/4 {
				t.Errorf("step %d: %d bytes in %d pages", i, told[n].TouchedBytes, told[n].TouchedCount)
			}
		}
		if fmt.Sprint(touched) != step.touched {
			t.Errorf("step %d: touched %v, want %s", i, touched, step.touched)
		}
	}
	if live := told[0].LiveBytes + told[1].LiveBytes; live != 0 {
		t.Errorf("%d bytes are live by names that are no longer used", live)
	}
}

// Stacks beyond the most are told as one sum.
func TestFeedIsBounded(t *testing.T) {
	var to bytes.Buffer
	f := newFeed(&to, nil)
	r := &report.Report{}
	for i := range agent.MaxStacks + 10 {
		r.Sites = append(r.Sites, touchedSite(i, 1, fmt.Sprint("f", i), 4, 4))
	}
	out := fedBy(t, f, &to, r)
	last := out.Sites[len(out.Sites)-1]
	if len(out.Stacks) != agent.MaxStacks || last.Stack != agent.OtherStacks || last.LiveBytes != 40 || last.TouchedCount != 10 || len(out.Frames) != agent.MaxStacks+1 {
		t.Errorf("%d stacks, %d frames, the others %+v", len(out.Stacks), len(out.Frames), last)
	}
}

// What an agent has not taken, the next Report has again.
func TestFeedKnowsWhatWasTold(t *testing.T) {
	from, to := io.Pipe()
	o := startFeed(&session{}, newFeed(to, thisProcess(t)))
	o.interval(&report.Report{WindowNS: 7})
	if got := o.endedAt(); got != 0 {
		t.Errorf("before it is read, all of %d was told", got)
	}
	feeds := json.NewDecoder(from)
	for _, window := range []uint64{7, 9} {
		var out agent.Feed
		if err := feeds.Decode(&out); err != nil || out.WindowNS != window {
			t.Fatalf("%+v, %v", out, err)
		}
		for o.endedAt() != window { // it is known once it was told
			time.Sleep(time.Millisecond)
		}
		if window == 7 {
			o.interval(&report.Report{WindowNS: 9})
		}
	}
	_ = from.Close()
	o.interval(&report.Report{WindowNS: 11})
	if err := o.final(&report.Report{WindowNS: 12}); err != nil {
		t.Error(err)
	}
	if got := o.endedAt(); got != 9 {
		t.Errorf("a Report that nobody could take was told: %d", got)
	}
}
