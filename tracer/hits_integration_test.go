//go:build integration

package tracer

import "testing"

// The returns of functions that lie at the same place of their pages, called by turns, are left out as others' are.
func TestReturnsAreLeftOut(t *testing.T) {
	needSession(t)
	p := start(t, nil, "same_places")
	tr, detach := attached(t, Config{Mechanism: Session, StackDepth: 1, Sampling: true, Interval: 1 << 30, Seed: 1}, p)
	defer detach()
	a := p.answer()
	h := tr.Hits()
	p.finish()
	if got := h.Entry + h.Return + h.Recorded; got != a.Total.Alloc+a.Total.Free {
		t.Errorf("%d calls were seen, the program made %d and %d", got, a.Total.Alloc, a.Total.Free)
	}
	const functions, cleanCalls = 2, 64 // which each of them must have made before: CLEAN_CALLS
	if h.Return+h.Recorded > functions*(cleanCalls+1)+1 {
		t.Errorf("%d returns were seen beside %d entries alone", h.Return+h.Recorded, h.Entry)
	}
}

// Each call of an operator new that keeps its return address is counted at its own return instruction, too.
func TestOwnReturnsAreCounted(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"LD_PRELOAD=" + library(t, allocators["jemalloc"])}, "cxx_containers", "1", "100")
			tr, detach := attached(t, Config{Mechanism: m, StackDepth: 1, Sampling: true, Seed: 1}, p)
			defer detach()
			a := p.answer()
			h := tr.Hits()
			p.finish()
			if h.Exit < a.Total.Alloc || h.Predicted < a.Total.Alloc || h.Entry < a.Total.Alloc+a.Total.Free {
				t.Errorf("the program allocated %d blocks, and freed %d; hits %+v", a.Total.Alloc, a.Total.Free, h)
			}
		})
	}
}
