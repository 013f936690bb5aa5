package reach

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A scan that isn't wanted any more reads nothing further, and says why. One that is wanted to its end is as any other.
func TestScanThatIsNotWanted(t *testing.T) {
	h := startHeap(t, 48, "far")
	over := errors.New("the trace was ended")
	ctx, end := context.WithCancelCause(t.Context())
	c := &scan{p: h.process, options: Options{Workers: 2, AllSeen: true, Wanted: ctx}}
	defer c.close()
	defer c.whileWanted()()
	if err := c.prepare(eachOfList(h.blocks)); err != nil {
		t.Fatal(err)
	}
	end(over)
	for !c.mem.gone.Load() {
		time.Sleep(time.Millisecond)
	}
	before := c.mem.read.Load()
	if c.reachable(); c.mem.read.Load() > before+2*winBytes || !errors.Is(c.whyGone(), over) {
		t.Errorf("it has read %d bytes more: %v", c.mem.read.Load()-before, c.whyGone())
	}
	r, err := Scan(h.process, eachOfList(h.blocks), Options{Workers: 2, AllSeen: true, Wanted: t.Context()})
	if err != nil || r.Sums[Definite] != h.lost {
		t.Errorf("%v: %+v, want %+v definite", err, r.Sums, h.lost)
	}
}
