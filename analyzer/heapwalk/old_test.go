package heapwalk

import (
	"path/filepath"
	"slices"
	"testing"
)

// startOld starts old_heap: a heap of an older glibc, with counts of so many bytes and that kind of key.
func startOld(t *testing.T, args ...string) *truth {
	t.Helper()
	program := filepath.Join(t.TempDir(), "old_heap")
	compile(t, "gcc", "-O1", "-fno-builtin", "-o", program, programs+"/old_heap.c")
	return startTruth(t, program, nil, args...)
}

// judgeOld asks about all blocks of such a program, until that was done while it waits, or once if it is busy.
func judgeOld(t *testing.T, c *truth, busy bool) map[uint64]State {
	t.Helper()
	var claims []Claim
	for addr, size := range c.blocks {
		claims = append(claims, Claim{Addr: addr, Size: size})
	}
	for addr := range c.freed {
		claims = append(claims, Claim{Addr: addr, Size: 24})
	}
	for {
		judged, err := Judge(c.process, Options{}, claims)
		if err != nil {
			t.Fatal(err)
		}
		if judged.Still == busy && busy {
			t.Fatalf("nothing ran, it is said of a busy program: %+v", judged)
		}
		if judged.Still || busy {
			break
		}
	}
	out := make(map[uint64]State)
	for _, c := range claims {
		out[c.Addr] = c.State
	}
	return out
}

var oldHeaps = [][]string{{"1", "none"}, {"1", "own"}, {"2", "none"}, {"2", "own"}}

// TestJudgeOldHeaps: where freed blocks have no key, or their table's address, what the program wrote to them is taken
// for none, and what it has is not freed, whatever it looks like.
func TestJudgeOldHeaps(t *testing.T) {
	for _, args := range oldHeaps {
		t.Run(args[0]+args[1], func(t *testing.T) {
			c := startOld(t, args...)
			for addr, state := range judgeOld(t, c, false) {
				want := []State{Allocated}
				switch {
				case c.freed[addr]:
					want = []State{Freed}
				case c.chance[addr]:
					want = []State{Allocated, Unknown}
				}
				if !slices.Contains(want, state) {
					t.Errorf("block %#x of %d bytes: %d, want %d", addr, c.blocks[addr], state, want)
				}
			}
		})
	}
}

// TestJudgeOldHeapsThatRun: without a key nothing tells that a block was not taken off a list while it was read, and is
// in use. With one, the key does.
func TestJudgeOldHeapsThatRun(t *testing.T) {
	for _, args := range oldHeaps {
		t.Run(args[0]+args[1], func(t *testing.T) {
			c := startOld(t, append(args, "busy")...)
			keyed := 0
			for addr, state := range judgeOld(t, c, true) {
				switch {
				case !c.freed[addr] && state == Freed:
					t.Errorf("block %#x of %d bytes lives, and is called free", addr, c.blocks[addr])
				case c.freed[addr] && state == Freed:
					keyed++
				case c.freed[addr] && state != Unknown:
					t.Errorf("block %#x was freed: %d", addr, state)
				}
			}
			want := 0
			if args[1] == "own" {
				want = len(c.freed) - 2 // in a fastbin
			}
			if keyed != want {
				t.Errorf("%d blocks are called free while the program runs, want %d", keyed, want)
			}
		})
	}
}

// TestWalkOldHeaps: a check for leaks takes no freed block for a live one, and no live one for free memory.
func TestWalkOldHeaps(t *testing.T) {
	for _, args := range oldHeaps {
		t.Run(args[0]+args[1], func(t *testing.T) {
			c := startOld(t, args...)
			found := make(map[uint64]bool)
			for b := range walk(t, c).All {
				found[b.Addr] = true
			}
			for addr, size := range c.blocks {
				if !found[addr] {
					t.Errorf("block %#x of %d bytes lives, and is not found", addr, size)
				}
			}
			for addr := range c.freed {
				if found[addr] {
					t.Errorf("block %#x was freed, and counts as live", addr)
				}
			}
		})
	}
}
