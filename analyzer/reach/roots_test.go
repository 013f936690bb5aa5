package reach

import (
	"path/filepath"
	"testing"
)

var rootNames = [RootKinds]string{Globals: "globals", ThreadLocal: "thread_local", Stacks: "stacks", SharedMemory: "shared",
	Anonymous: "anonymous", HeapBeforeAttach: "heap_before_attach"}

// TestBlocksByKindOfRoots: of each kind of root it is told what only that one,
// and those that come after it, leads to.
func TestBlocksByKindOfRoots(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leak_roots")
	compile(t, "gcc", "-O1", "-pthread", "-o", program, programs+"/leak_roots.c")
	c := startCorpus(t, program)
	want := make(map[string]Sum)
	for _, b := range c.blocks {
		s := want[c.names[b.Size]]
		want[c.names[b.Size]] = Sum{s.Count + 1, s.Bytes + b.Size}
	}
	threads := stopAll(t, c.process)
	mapped := besideALargeBlock(t, c)
	for _, workers := range []int{1, 2} {
		r, err := Scan(c.process, c.each, Options{Threads: threads, Workers: workers, Mapped: mapped})
		if err != nil {
			t.Fatal(err)
		}
		if r.Sums[Reachable].Count != uint64(len(c.blocks)) {
			t.Errorf("%+v of %d blocks", r.Sums, len(c.blocks))
		}
		for kind, name := range rootNames {
			if regThread < 0 { // where the thread pointer is not known they are not told apart
				continue
			}
			if got := r.ByRoots[kind]; got != want[name] {
				t.Errorf("%d workers: roots of kind %d (%s) lead to %+v, want %+v", workers, kind, name, got, want[name])
			}
		}
	}
	// Where it is not known what the program mapped itself, such a mapping is told by what the kernel has of it.
	r, err := Scan(c.process, c.each, Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.ByRoots[AllocatorMemory]; got != want["anonymous"] || r.ByRoots[Anonymous] != (Sum{}) {
		t.Errorf("a mapping that was not seen: %+v by memory with blocks, want %+v", got, want["anonymous"])
	}
}

// besideALargeBlock yields the page that the program mapped below its large block.
func besideALargeBlock(t *testing.T, c *corpus) func(yield func(start, end uint64) bool) {
	t.Helper()
	const large, page = 4000, 1 << 12
	for _, b := range c.blocks {
		if b.Size == large {
			return func(yield func(start, end uint64) bool) { yield(b.Addr&^(page-1)-page, b.Addr&^(page-1)) }
		}
	}
	t.Fatal("the program has no large block")
	return nil
}
