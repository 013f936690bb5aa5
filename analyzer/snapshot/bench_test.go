package snapshot

import (
	"bytes"
	"context"
	"testing"
)

// BenchmarkTake takes the whole machine, as far as this user may.
func BenchmarkTake(b *testing.B) {
	b.ReportAllocs()
	processes := 0
	for b.Loop() {
		s, err := Take(context.Background(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		processes = len(s.Processes)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*max(processes, 1)), "µs/process")
}

// BenchmarkFile writes and reads a snapshot of this machine.
func BenchmarkFile(b *testing.B) {
	s, err := Take(context.Background(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	var file bytes.Buffer
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			file.Reset()
			if err := Write(&file, s); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(file.Len())/float64(max(len(s.Processes), 1)), "B/process")
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Read(bytes.NewReader(file.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
