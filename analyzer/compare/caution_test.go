package compare

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

func TestCautions(t *testing.T) {
	sampled := func(n ...uint64) func(*report.Report) {
		return func(r *report.Report) { r.Sampling = &report.Sampling{Intervals: n} }
	}
	plain := func(*report.Report) {}
	allocated := live
	allocated.Kind, allocated.Sums = "allocated", true
	for name, c := range map[string]struct {
		before, after func(*report.Report)
		figure        Figure
		want          string
	}{
		"alike":       {plain, plain, live, ""},
		"lost":        {plain, func(r *report.Report) { r.Events.Lost = 12 }, live, "after: 12 events lost"},
		"sampled":     {plain, sampled(4096), live, "sampled differently: before not at all, after every 4.00 KiB"},
		"intervals":   {sampled(4096), sampled(4096, 65536), live, "before every 4.00 KiB, after every 4.00 KiB, then every 64.0 KiB"},
		"same sample": {sampled(512), sampled(512), live, ""},
		"shed":        {func(r *report.Report) { r.Shed = &report.Shed{Allocations: 3, Blocks: 4} }, plain, live, "before: to stay within --memory, 3 allocations"},
		"paused":      {plain, func(r *report.Report) { r.Overhead = &report.Overhead{PausedNS: 2e9} }, live, "after: nothing was traced for 2s"},
		"no probes":   {plain, func(r *report.Report) { r.Overhead = &report.Overhead{NoneNS: 2e9} }, live, "after: no allocation was traced for 2s"},
		"untraced":    {func(r *report.Report) { r.Tracer.Attach = report.NotTraced }, plain, live, "read from outside"},
		"attached":    {plain, func(r *report.Report) { r.Processes[0].Attached = true }, live, "before was traced from the start of its program, and after from an attach on"},
		"window":      {func(r *report.Report) { r.WindowNS, r.Processes[0].Exited = 1e9, false }, plain, allocated, "allocated adds up from the attach on, and the traces took 1s and 10s"},
		"live window": {func(r *report.Report) { r.WindowNS, r.Processes[0].Exited = 1e9, false }, plain, live, ""},
		"whole":       {func(r *report.Report) { r.WindowNS = 1e9 }, plain, allocated, ""},
		"unnamed":     {plain, func(r *report.Report) { r.Sites = []report.Site{{Function: report.NotNamedYet}} }, live, "after: 1 site without names yet"},
	} {
		t.Run(name, func(t *testing.T) {
			var sides [2]Side
			for i, change := range []func(*report.Report){c.before, c.after} {
				r := &report.Report{WindowNS: 10e9, Processes: []report.Process{{ID: 1, Comm: "p", Exited: true}}}
				change(r)
				sides[i] = Side{Report: r}
			}
			d, err := Compare(c.figure, sides[0], sides[1], "site")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(d.Cautions, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) || len(d.Cautions) > 1 {
				t.Errorf("cautions %q, want %q", got, c.want)
			}
		})
	}
	d, err := Compare(live, Side{Report: &report.Report{}, Unknown: "it was not checked"}, Side{Report: &report.Report{}}, "site")
	if err != nil || len(d.Cautions) != 1 || d.Cautions[0] != "before: it was not checked: what it has of live is not known, which is not the same as 0" {
		t.Errorf("%v: %q", err, d.Cautions)
	}
}
