package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// told is a Feed with new stacks, each of one function, and figures.
func told(functions []string, sites ...StackFigures) *Feed {
	f := &Feed{Sites: sites}
	for i, name := range functions {
		f.Frames = append(f.Frames, report.Frame{Function: name})
		f.Stacks = append(f.Stacks, FeedStack{Frames: []int{i}})
	}
	return f
}

func booked(t *testing.T, l *ledger, feeds ...*Feed) {
	t.Helper()
	for _, f := range feeds {
		if err := l.take(f); err != nil {
			t.Fatal(err)
		}
	}
}

// grownAndTouched are a function's figures.
func grownAndTouched(l *ledger, function string) (grown, touched uint64) {
	for _, s := range l.report("x").Sites {
		if s.Function == function {
			grown, touched = grown+s.LiveBytes, touched+s.AllocBytes
		}
	}
	return grown, touched
}

// What was touched is counted through tracers and never falls; what is live is the present tracer's.
func TestLedgerThroughTracers(t *testing.T) {
	l := newLedger()
	for i, step := range []struct {
		begin          bool
		feed           *Feed
		grown, touched uint64
	}{
		{false, told([]string{"a", "b"}, StackFigures{Stack: 0, LiveBytes: 8, LiveCount: 1, TouchedBytes: 8, TouchedCount: 1}), 8, 8},
		{false, told(nil, StackFigures{Stack: 0, LiveBytes: 20, LiveCount: 2, TouchedBytes: 24, TouchedCount: 3}), 20, 24},
		{false, told(nil, StackFigures{Stack: 0, LiveBytes: 4, LiveCount: 1, TouchedBytes: 24, TouchedCount: 3}), 4, 24},
		{false, told(nil, StackFigures{Stack: 1, LiveBytes: 99, LiveCount: 9, TouchedBytes: 99, TouchedCount: 9}), 4, 24},
		{true, &Feed{}, 0, 24},
		{false, told([]string{"c", "a"}, StackFigures{Stack: 1, LiveBytes: 7, LiveCount: 1, TouchedBytes: 7, TouchedCount: 1}), 7, 31},
	} {
		if step.begin {
			l.begin()
		}
		booked(t, l, step.feed)
		if grown, touched := grownAndTouched(l, "a"); grown != step.grown || touched != step.touched {
			t.Errorf("step %d: grown %d, touched %d; want %d, %d", i, grown, touched, step.grown, step.touched)
		}
	}
	if grown, touched := grownAndTouched(l, "b"); grown != 0 || touched != 99 {
		t.Errorf("the stack that the new tracer has not met: grown %d, touched %d", grown, touched)
	}
}

// However many stacks there are, the ledger is bounded, and nothing is lost from its sums. Those of the present tracer
// stay, and a tracer that has others gets room for them.
func TestLedgerIsBounded(t *testing.T) {
	l := newLedger()
	const tracers = 4
	for tracer := range tracers {
		l.begin()
		var names []string
		var sites []StackFigures
		for i := range MaxStacks - 1 {
			names = append(names, fmt.Sprintf("f%d of %d", i, tracer))
			sites = append(sites, StackFigures{Stack: i, LiveBytes: 4, LiveCount: 1, TouchedBytes: 4, TouchedCount: 1})
		}
		booked(t, l, told(names, append(sites, StackFigures{Stack: OtherStacks, LiveBytes: 4, LiveCount: 1, TouchedBytes: 4, TouchedCount: 1})...))
		if grown, _ := grownAndTouched(l, fmt.Sprintf("f%d of %d", MaxStacks-2, tracer)); grown != 4 {
			t.Errorf("tracer %d: the last of its stacks has %d bytes", tracer, grown)
		}
	}
	var grown, touched uint64
	r := l.report("x")
	for _, s := range r.Sites {
		grown, touched = grown+s.LiveBytes, touched+s.AllocBytes
	}
	if len(r.Sites) > MaxStacks+1 || len(l.frames) > 2*MaxStacks || grown != 4*MaxStacks || touched != tracers*4*MaxStacks {
		t.Errorf("%d stacks, %d frames, grown %d, touched %d", len(r.Sites), len(l.frames), grown, touched)
	}
}

// A tracer that names what it has not told of is refused.
func TestLedgerRefusesUnknownNumbers(t *testing.T) {
	for _, f := range []*Feed{
		{Sites: []StackFigures{{Stack: 0}}}, {Sites: []StackFigures{{Stack: -2}}},
		{Stacks: []FeedStack{{Frames: []int{0}}}}, {Stacks: []FeedStack{{Frames: []int{-1}}}},
	} {
		if err := newLedger().take(f); err == nil {
			t.Errorf("%+v was taken", f)
		}
	}
	l := newLedger()
	booked(t, l, &Feed{Frames: []report.Frame{{Function: "a"}}, Stacks: []FeedStack{{Frames: []int{0}, Function: 7}}, Sites: []StackFigures{{TouchedCount: 1}}})
	if top, _ := l.sites(1); len(top) != 1 || top[0].Function != "a" {
		t.Errorf("sites %+v", top)
	}
}

// Sites are lines of code: stacks through one line are summed, the largest first, and the rest adds up.
func TestLedgerSites(t *testing.T) {
	l := newLedger()
	f := &Feed{Frames: []report.Frame{{Function: "malloc"}, {Function: "leak", File: "x.c", Line: 3}, {Function: "main"}, {Function: "test"}, {Function: "small"}}}
	f.Stacks = []FeedStack{{Frames: []int{0, 1, 2}, Function: 1}, {Frames: []int{0, 1, 3}, Function: 1}, {Frames: []int{4}}}
	for i, bytes := range []uint64{10, 20, 25} {
		f.Sites = append(f.Sites, StackFigures{Stack: i, LiveBytes: bytes, TouchedBytes: bytes, TouchedCount: 1})
	}
	booked(t, l, f)
	top, rest := l.sites(1)
	if len(top) != 1 || top[0].Function != "leak" || top[0].Line != 3 || top[0].Grown != 30 || fmt.Sprint(top[0].Stack) != "[malloc leak test]" || rest.Grown != 25 {
		t.Errorf("%+v, the rest %+v", top, rest)
	}
}

// Sites with metrics stay the same while others grow about as fast, so that their series go on.
func TestSteadySites(t *testing.T) {
	l := newLedger()
	booked(t, l, told([]string{"a", "b"}, StackFigures{Stack: 0, LiveBytes: 10, TouchedCount: 1}, StackFigures{Stack: 1, LiveBytes: 9, TouchedCount: 1}))
	for i, step := range []struct {
		a, b uint64
		top  string
		rest uint64
	}{{10, 9, "a", 9}, {10, 19, "a", 19}, {10, 21, "b", 10}, {30, 21, "b", 30}, {43, 21, "a", 21}} {
		booked(t, l, told(nil, StackFigures{Stack: 0, LiveBytes: step.a, TouchedCount: 1}, StackFigures{Stack: 1, LiveBytes: step.b, TouchedCount: 1}))
		if top, rest := l.steadySites(1); len(top) != 1 || top[0].Function != step.top || rest.Grown != step.rest {
			t.Errorf("step %d: %+v, the rest %d; want %s, %d", i, top, rest.Grown, step.top, step.rest)
		}
		want := "a"
		if step.b > step.a {
			want = "b"
		}
		if top, _ := l.sites(1); top[0].Function != want {
			t.Errorf("step %d: %s has most growth, want %s", i, top[0].Function, want)
		}
	}
}

// A site has the same label whatever grows beside it, and no two have one.
func TestSiteLabels(t *testing.T) {
	long := strings.Repeat("very::long::", 20)
	names := []string{long + "one", long + "two", "a\x1b", "a\n", "a?", "other", "plain x.c:3"}
	labels := make(map[string]uint64) // and their growth
	a := &Agent{}
	a.config.Store(&Config{SiteMetrics: 100})
	w := &watch{service: "x", ledger: newLedger()}
	a.watches.all = map[string]*watch{"x": w}
	for round := range 2 {
		f := told(nil)
		if round == 0 {
			f = told(names)
		}
		for i := range names { // those that grew most the first time grow least the second
			rank := uint64(i + 1)
			if round == 1 {
				rank = uint64(len(names)-i) * 10
			}
			f.Sites = append(f.Sites, StackFigures{Stack: i, LiveBytes: rank, TouchedCount: 1})
		}
		booked(t, w.ledger, f)
		emitSites(a, nil, func(v float64, l ...string) {
			if l[1] == otherServices {
				return
			}
			if was, known := labels[l[1]]; round == 1 && (!known || uint64(v) != 10*(uint64(len(names))+1-was)) {
				t.Errorf("%q has %v bytes, and had %d", l[1], v, was)
			}
			labels[l[1]] = uint64(v)
		})
	}
	if len(labels) != len(names) || labels["plain x.c:3"] == 0 || labels["a?"] == 0 {
		t.Errorf("%d labels of %d sites: %v", len(labels), len(names), labels)
	}
}
