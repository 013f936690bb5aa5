package recording

import (
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// Whatever an ID is, it comes from its origin.
func TestAnyIDHasAnOrigin(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for _, id := range []event.StackID{0, 1, 1<<64 - 1, event.StackID(r.Uint64()), event.StackID(r.Uint64())} {
		for range 100 {
			if sum := r.Uint64(); idOf(originOf(id, sum), sum) != id {
				t.Fatalf("%#x becomes %#x", id, idOf(originOf(id, sum), sum))
			}
		}
	}
}

// Stacks of one program, as the kernel's part of a tracer gave them, have one origin.
func TestOneOriginAProgram(t *testing.T) {
	t.Parallel()
	stacks := []struct {
		id     event.StackID
		frames []uint64
	}{
		{0xec509241de6d88d9, []uint64{0x4f71ba, 0x6288f5, 0x627f9f, 0x627ff7, 0x627ea0, 0x627d37, 0x7fb6ea97724a, 0x7fb6ea977305, 0x627bd1}},
		{0x583d4e5bd799d383, []uint64{0x4f71ba, 0x628906, 0x627f9f, 0x627ff7, 0x627ea0, 0x627d37, 0x7fb6ea97724a, 0x7fb6ea977305, 0x627bd1}},
		{0x78903083028b4e6e, []uint64{0x4f71ba, 0x628917, 0x627f9f, 0x627ff7, 0x627ea0, 0x627d37, 0x7fb6ea97724a, 0x7fb6ea977305, 0x627bd1}},
	}
	var origins []uint64
	for _, s := range stacks {
		sum := uint64(0)
		for depth := range s.frames {
			sum = frameSum(sum, depth, s.frames[len(s.frames)-1-depth])
		}
		origins = append(origins, originOf(s.id, sum))
	}
	for _, o := range origins {
		if o != origins[0] {
			t.Fatalf("origins %#x", origins)
		}
	}
}
