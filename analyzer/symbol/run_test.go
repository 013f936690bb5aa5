package symbol

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Stacks that are named one after the other have the names that each has by itself, whatever was mapped meanwhile.
func TestRunNamesAsOneByOne(t *testing.T) {
	code := func(paths ...string) (out []region) {
		for i, path := range paths {
			out = append(out, region{start: uint64(i+1) << 12, end: uint64(i+2) << 12, path: path})
		}
		return out
	}
	s := &Space{root: -1}
	s.update(code("a", "b", "c"), 10)
	s.update(code("a", "d", "c"), 20)
	child := &Space{root: -1, parent: s, forked: 15}
	child.update(code("e"), 30)
	r := NewResolver(Options{})
	defer r.Close()
	random := rand.New(rand.NewPCG(1, 1))
	run := r.Run()
	addrs := []uint64{0x1001}
	names := map[string]bool{}
	for i := range 3000 {
		if random.IntN(4) > 0 { // the outer frames of the one before, and others further in
			addrs = append([]uint64(nil), addrs[random.IntN(len(addrs)):]...)
		} else {
			addrs = nil
		}
		for len(addrs) == 0 || random.IntN(3) > 0 {
			addrs = append([]uint64{random.Uint64N(5 << 12)}, addrs...)
		}
		space, at := []*Space{s, child}[random.IntN(20)/19], random.Uint64N(60)
		got, want := run.FramesAt(space, addrs, at), r.FramesAt(space, addrs, true, at)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("stack %d, %#x at %d: %v, want %v", i, addrs, at, got, want)
		}
		for _, f := range got {
			names[f.Module] = true
		}
	}
	for _, want := range []string{"", "a", "b", "c", "d", "e"} {
		if !names[want] {
			t.Errorf("no stack went through %q", want)
		}
	}
}
