//go:build linux && !viewer

package goheap

import "testing"

// BenchmarkRead is what a reading costs: of memtrace's time, and of calls that read the process's memory.
func BenchmarkRead(b *testing.B) {
	for _, w := range []struct{ name, rate string }{{"default rate", ""}, {"every block", "RATE=1"}} {
		b.Run(w.name, func(b *testing.B) {
			s := start(b, build(b, "", "program"), w.rate)
			s.ask("gc")
			r := s.open()
			var p *Profile
			for b.Loop() {
				p = read(b, r)
			}
			b.ReportMetric(float64(p.Calls), "calls/op")
			b.ReportMetric(float64(p.Buckets), "buckets")
			b.ReportMetric(float64(p.Bytes), "bytes/op")
		})
	}
}

// BenchmarkOpen is what finding the profile of a stripped program costs, once.
func BenchmarkOpen(b *testing.B) {
	s := start(b, build(b, "", "program", "-ldflags=-s -w"))
	for b.Loop() {
		r, err := Open(s.cmd.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
