package top

import (
	"testing"
)

// BenchmarkFrame makes a table of 300 processes, sorts it and draws a screen of
// 120 × 50, as each refresh does.
func BenchmarkFrame(b *testing.B) {
	s := example()
	for i := range 300 {
		s.Processes = append(s.Processes, process(1000+i, "worker", "web", int64(i+9)*mib, int64(i*7%300)*mib, int64(i)*mib))
	}
	m := NewScreen(b.Context(), Options{View: Processes, Colour: true})
	m.width, m.height = 120, 50
	m.snapshot = s
	b.ReportAllocs()
	for b.Loop() {
		m.build()
		m.View()
	}
}
