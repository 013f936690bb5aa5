//go:build linux && !viewer

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
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

func touchedSite(process int, function string, live, touched uint64) report.Site {
	return report.Site{
		Process: process, Stack: []*report.Frame{{Function: "malloc"}, {Function: function}}, FunctionFrame: 1,
		LiveBytes: live, LiveCount: live / 4, AllocBytes: touched, AllocCount: touched / 4,
	}
}

// The same stack of two processes is one; what is told once is not told again; what was touched never falls, whatever a
// Report leaves out; and what a process held that has ended is nobody's.
func TestFeedTellsWhatChanged(t *testing.T) {
	var to bytes.Buffer
	f := newFeed(&to)
	processes := func(ended bool) []report.Process {
		return []report.Process{
			{ID: 1, Exe: "/bin/x", FirstTouch: &report.FirstTouch{ExplainedBytes: 12, BeforeBytes: 5, UnexplainedBytes: -1}},
			{ID: 2, Exited: ended, FirstTouch: &report.FirstTouch{ExplainedBytes: 8}},
		}
	}
	one := fedBy(t, f, &to, &report.Report{Processes: processes(false), Sites: []report.Site{touchedSite(1, "a", 8, 8), touchedSite(2, "a", 8, 16), touchedSite(1, "b", 4, 4)}})
	if len(one.Frames) != 3 || len(one.Stacks) != 2 || len(one.Sites) != 2 || one.Sites[0].LiveBytes != 16 || one.Sites[0].TouchedBytes != 24 {
		t.Errorf("%+v", one)
	}
	if one.Processes != 2 || one.Grown != 20 || one.Before != 5 || one.Unexplained != -1 || one.Exe != "/bin/x" || one.CPUNS == 0 || one.Resident == 0 {
		t.Errorf("%+v", one)
	}
	f.refuse(77)
	two := fedBy(t, f, &to, &report.Report{Processes: processes(true), Sites: []report.Site{touchedSite(1, "a", 8, 8), touchedSite(2, "a", 8, 16), touchedSite(1, "b", 4, 4)}})
	if len(two.Frames)+len(two.Stacks) != 0 || len(two.Sites) != 1 || two.Sites[0].LiveBytes != 8 || two.Sites[0].TouchedBytes != 24 || two.Processes != 1 || fmt.Sprint(two.Refused) != "[77]" {
		t.Errorf("%+v", two)
	}
	three := fedBy(t, f, &to, &report.Report{Processes: processes(true), Sites: []report.Site{touchedSite(1, "a", 8, 8)}})
	if len(three.Sites) != 1 || three.Sites[0].Stack != 1 || three.Sites[0].TouchedBytes != 4 || three.Sites[0].LiveBytes != 0 || len(three.Refused) != 0 {
		t.Errorf("%+v", three)
	}
	four := fedBy(t, f, &to, &report.Report{Processes: processes(true), Sites: []report.Site{touchedSite(1, "a", 8, 12)}})
	if len(four.Sites) != 1 || four.Sites[0].Stack != 0 || four.Sites[0].TouchedBytes != 28 {
		t.Errorf("%+v", four)
	}
}

// Stacks beyond the most are told as one sum.
func TestFeedIsBounded(t *testing.T) {
	var to bytes.Buffer
	f := newFeed(&to)
	r := &report.Report{}
	for i := range agent.MaxStacks + 10 {
		r.Sites = append(r.Sites, touchedSite(1, fmt.Sprint("f", i), 4, 4))
	}
	out := fedBy(t, f, &to, r)
	last := out.Sites[len(out.Sites)-1]
	if len(out.Stacks) != agent.MaxStacks || last.Stack != agent.OtherStacks || last.LiveBytes != 40 || last.TouchedCount != 10 || len(out.Frames) != agent.MaxStacks+1 {
		t.Errorf("%d stacks, %d frames, the others %+v", len(out.Stacks), len(out.Frames), last)
	}
}
