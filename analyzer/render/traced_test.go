package render

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A process that ended before its figures were read is not said to have them soon, and was traced for its own time.
func TestShortLivedProcess(t *testing.T) {
	r := serviceReport()
	p := &r.Processes[0]
	p.TracedNS, p.Exited, p.Usage.SampledNS, p.Heap.CorrelatedNS = 40_000_000, true, 0, 0
	out := text(t, r, Options{Width: 120})
	for _, want := range []string{"traced 40.0 ms", "RSS   not read: it ended before a sample was taken", "resident: not measured: it ended"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

// Beside a standard error stands how many samples it comes from.
func TestEstimatesSayOfHowManySamples(t *testing.T) {
	r := serviceReport()
	r.Sampling = &report.Sampling{Intervals: []uint64{4096}, Blocks: 5432}
	e := &report.Estimate{Samples: 654, LiveSamples: 321, LiveBytesSE: 4096, LiveCountSE: 3}
	r.Processes[0].Heap.Estimate, r.Sites[0].Estimate = e, e
	out := text(t, r, Options{Width: 140})
	for _, want := range []string{"± 3 (of 321 samples)", "SAMPLES", " 321 "} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
