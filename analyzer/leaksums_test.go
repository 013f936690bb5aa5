package analyzer

import (
	"reflect"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A sum is as certain as its least certain part, and the errors of its parts,
// which are independent, add up by their squares.
func TestLeakSums(t *testing.T) {
	s := leakSums{}
	s.add([]report.Leak{
		{Site: 1, Kind: "definite", Bytes: 10, Count: 1, Confidence: 1, Why: "sure", OldestNS: 5, NewestNS: 6, SeenBytes: 4, Estimate: &report.LeakEstimate{Samples: 1, BytesSE: 3, CountSE: 6}},
		{Site: 1, Kind: "possible", Bytes: 1, Count: 1},
		{Site: 1, Kind: "possible", Bytes: 2, Count: 1, Doubtful: true},
		{Site: 2, Kind: "definite", Bytes: 3, Count: 1},
	})
	s.add([]report.Leak{{Site: 1, Kind: "definite", Bytes: 20, Count: 2, Confidence: 0.9, Why: "less sure", OldestNS: 3, NewestNS: 4, SeenBytes: 5, WarmUpBytes: 7, Estimate: &report.LeakEstimate{Samples: 2, BytesSE: 4, CountSE: 8}}})
	s.add([]report.Leak{{Site: 1, Kind: "definite", Bytes: 1, Count: 1, Confidence: 1, Why: "sure", OldestNS: 4, NewestNS: 9}})
	want := report.Leak{Site: 1, Kind: "definite", Bytes: 31, Count: 4, Confidence: 0.9, Why: "less sure", OldestNS: 3, NewestNS: 9, SeenBytes: 9, WarmUpBytes: 7, Estimate: &report.LeakEstimate{Samples: 3, BytesSE: 5, CountSE: 10}}
	if got := s.leaks[leakKey{1, "definite", false}]; !reflect.DeepEqual(got, want) || len(s.leaks) != 4 {
		t.Errorf("%d sums, that of the definite leaks of site 1 is %+v, want 4 and %+v", len(s.leaks), got, want)
	}
}
