package live

import (
	"testing"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
)

// BenchmarkRead takes Snapshots of this machine as the live view does: what has
// not changed is not walked.
func BenchmarkRead(b *testing.B) {
	s, err := Open(Options{StallBudget: 2 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	processes := 0
	b.ReportAllocs()
	for b.Loop() {
		snapshot, err := s.Read(b.Context(), top.Want{View: top.Processes})
		if err != nil {
			b.Fatal(err)
		}
		processes = len(snapshot.Processes)
	}
	b.ReportMetric(float64(processes), "processes")
}
