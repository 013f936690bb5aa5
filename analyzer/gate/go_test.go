package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// goReport is a Report on a Go program at a time, in which no allocation is traced.
func goReport(at time.Duration, g *report.GoHeap) *report.Report {
	return &report.Report{Schema: report.Schema, WindowNS: uint64(at), Processes: []report.Process{{ID: 1, PID: 7, Comm: "prog", Unprobed: true, Attached: true, GoHeap: g}}}
}

func judgeGo(t *testing.T, rule string, heaps ...*report.GoHeap) *report.Outcome {
	t.Helper()
	j := New(Options{Rules: rules(t, rule)})
	for i, g := range heaps[:len(heaps)-1] {
		j.Observe(goReport(time.Duration(i)*time.Second, g))
	}
	return j.Decide(goReport(time.Duration(len(heaps)-1)*time.Second, heaps[len(heaps)-1]), Evidence{})
}

// How a Go program's heap grows is judged by its own samples.
func TestGrowthOfAGoProgram(t *testing.T) {
	var heaps []*report.GoHeap
	for i := range 5 {
		heaps = append(heaps, &report.GoHeap{LiveBytes: uint64(i) << 20})
	}
	if o := judgeGo(t, "growth>2MiB/s", heaps...); o.Failed || len(o.Problems) != 0 || o.Rules[0].Status != report.RulePassed {
		t.Errorf("%+v", o)
	}
	if o := judgeGo(t, "growth>512KiB/s", heaps...); !o.Failed || len(o.Problems) != 0 {
		t.Errorf("%+v", o)
	}
}

// A rule is not passed by a profile that is not there, nor by samples where it is about traced blocks.
func TestGoProgramThatTellsNothing(t *testing.T) {
	off := &report.GoHeap{Problem: "it is off"}
	for _, c := range []struct {
		rule, says string
		heap       *report.GoHeap
	}{
		{"growth>1GiB/s", "it is off", off},
		{"growth>1GiB/s", "no Go heap profile", nil},
		{"allocs>5", "no allocation was seen", &report.GoHeap{LiveBytes: 5}},
	} {
		o := judgeGo(t, c.rule, c.heap, c.heap, c.heap, c.heap)
		if len(o.Problems) != 1 || !strings.Contains(o.Problems[0], c.says) {
			t.Errorf("%s with %+v: problems %q, want %q", c.rule, c.heap, o.Problems, c.says)
		}
	}
}
