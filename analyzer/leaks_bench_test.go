package analyzer

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkLeakCandidates is the search among 10,000 sites: one in ten wanders,
// one in a hundred leaks, the rest stands still.
func BenchmarkLeakCandidates(b *testing.B) {
	s := simulate(1)
	s.spread(64*200, 0, 64, s.exponential(0.3))
	s.spread(64*10, 0, 64, never)
	leaking := s.at(64)
	still := leakSite{levels: make([]float64, 64), bins: leaking.bins[:len(leaking.bins)/2], observed: leaking.observed, stepNS: second}
	var sites []leakSite
	for i := range 10_000 {
		switch {
		case i%100 == 0:
			sites = append(sites, leaking)
		case i%10 == 1:
			sites = append(sites, randomWalk(rand.New(rand.NewPCG(uint64(i), 1)), 64))
		default:
			sites = append(sites, still)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		if len(found(0, sites...)["growing"]) < 100 {
			b.Fatal("leaks not found")
		}
	}
}
