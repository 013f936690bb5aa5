package tracer

import "testing"

// fill takes n batches and gives them back.
func fill(t *testing.T, p *batches, n int) {
	t.Helper()
	var taken []*Batch
	for range n {
		b := p.take(nil)
		if b == nil || len(b.Events) != 0 || cap(b.Events) != batchEvents {
			t.Fatalf("got the batch %+v", b)
		}
		taken = append(taken, b)
	}
	for _, b := range taken {
		b.Release()
	}
}

// What a backlog needed is let go of when it is over, but not what comes back
// again and again.
func TestBatchesAreLetGoOf(t *testing.T) {
	p := newBatches()
	fill(t, &p, 1000)
	if p.made != 1000 {
		t.Fatalf("%d batches for a backlog of 1000", p.made)
	}
	for range 2 * trimEvery / 8 {
		fill(t, &p, 8)
	}
	if want := 8 + spareBatches; p.made > want || len(p.pool) != p.made {
		t.Errorf("%d batches, %d in the pool, once 8 are needed at a time: want at most %d", p.made, len(p.pool), want)
	}
	for turn := range 20 * trimEvery / 300 {
		fill(t, &p, 300)
		before := p.made
		if fill(t, &p, 1); p.made < before && turn > 0 {
			t.Fatalf("turn %d: %d batches left of %d that are needed each time", turn, p.made, before)
		}
	}
}

// There are never more than the bound, and the wait for one ends with the trace.
func TestBatchesAreBounded(t *testing.T) {
	p := newBatches()
	for range maxBatches {
		p.take(nil)
	}
	quit := make(chan struct{})
	close(quit)
	if b := p.take(quit); b != nil || p.made != maxBatches {
		t.Errorf("got %+v as number %d", b, p.made+1)
	}
}
