package reach

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIndexFindsWhatAListDoes compares the index with a search in a sorted
// list, for blocks of all sizes: many in a page, over pages, and over regions.
func TestIndexFindsWhatAListDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var blocks []Leak
	at := uint64(0x5500_0000_1230)
	for i := range 3000 {
		size := []uint64{0, 1, 8, 24, 40, 500, 5000, 300_000, 5 << 20}[rng.IntN(9-6*(i%2))]
		blocks = append(blocks, Leak{Addr: at, Size: size, Site: uint32(i)})
		at += max(size, 1) + 7
		at = at&^7 + 8*rng.Uint64N(3)
		if rng.IntN(100) == 0 {
			at += rng.Uint64N(1<<32) &^ 7
		}
	}
	given := slices.Clone(blocks)
	rng.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
	x := indexOf(t, given)
	if x.count != len(blocks) {
		t.Fatalf("%d blocks, want %d", x.count, len(blocks))
	}
	for i, b := range blocks {
		if x.size(uint32(i)) != b.Size || x.addrOf(uint32(i)) != b.Addr {
			t.Fatalf("block %d: size %d at %#x; want %+v", i, x.size(uint32(i)), x.addrOf(uint32(i)), b)
		}
		for _, addr := range []uint64{b.Addr - 1, b.Addr, b.Addr + 1, b.Addr + b.Size/2, b.Addr + b.Size - 1, b.Addr + b.Size, b.Addr + b.Size + 5000} {
			checkFind(t, x, blocks, addr)
		}
	}
	i := uint32(0)
	for addr, n := range x.all {
		if n != i || addr != blocks[i].Addr {
			t.Fatalf("block %d at %#x comes as %d, want %d at %#x", n, addr, n, i, blocks[i].Addr)
		}
		i++
	}
}

// TestIndexOfFullPages: blocks at every multiple of 8 are numbered as they come,
// the most that a page can have.
func TestIndexOfFullPages(t *testing.T) {
	var blocks []Leak
	for i := range uint64(1300) {
		blocks = append(blocks, Leak{Addr: 0x7f0000000008 + i*8, Size: 8})
	}
	x := indexOf(t, blocks)
	for i, b := range blocks {
		if got, start, ok := x.find(b.Addr + 5); !ok || int(got) != i || start != b.Addr {
			t.Fatalf("%#x is in block %d at %#x, %v; want %d", b.Addr+5, got, start, ok, i)
		}
	}
}

func indexOf(t *testing.T, blocks []Leak) *index {
	t.Helper()
	x := new(index)
	t.Cleanup(x.area.close)
	err := x.build(func(yield func(addr, size uint64, site uint32) bool) {
		for _, b := range blocks {
			if !yield(b.Addr, b.Size, b.Site) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func checkFind(t *testing.T, x *index, sorted []Leak, addr uint64) {
	t.Helper()
	n, exact := slices.BinarySearchFunc(sorted, addr, func(b Leak, addr uint64) int {
		switch {
		case b.Addr < addr:
			return -1
		case b.Addr > addr:
			return 1
		}
		return 0
	})
	if !exact {
		n--
	}
	want := n >= 0 && addr < sorted[n].Addr+max(sorted[n].Size, 1)
	i, start, ok := x.find(addr)
	if ok != want || ok && (int(i) != n || start != sorted[n].Addr) {
		t.Fatalf("%#x: block %d at %#x, %v; want %d, %v", addr, i, start, ok, n, want)
	}
}

// TestIndexOfFakedBlocks: what no allocator gives is left out, and what
// overlaps ends where the next begins.
func TestIndexOfFakedBlocks(t *testing.T) {
	x := indexOf(t, []Leak{
		{Addr: 0x10000, Size: 1 << 40}, {Addr: 0x20000, Size: 64}, {Addr: 0x10004, Size: 8},
		{Addr: 0, Size: 8}, {Addr: 1 << 60, Size: 8}, {Addr: 0x30000, Size: 1 << 63},
	})
	if x.count != 2 || x.skipped != 4 {
		t.Errorf("%d blocks, %d left out; want 2, 4", x.count, x.skipped)
	}
	for addr, want := range map[uint64]uint64{0x10000: 0x10000, 0x1fff8: 0x10000, 0x20010: 0x20000} {
		if _, start, ok := x.find(addr); !ok || start != want {
			t.Errorf("%#x is in the block at %#x, %v; want %#x", addr, start, ok, want)
		}
	}
}

// TestWordsAtAnyByte compares the search for unaligned words with one that
// tries each byte.
func TestWordsAtAnyByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var blocks []Leak
	for i := range uint64(200) {
		blocks = append(blocks, Leak{Addr: 0x5512_3400_0000 + i*64, Size: 48})
	}
	x := indexOf(t, blocks)
	m, err := newMarker(x, &space{windows: []window{{}}}, &memory{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	m.quiet, m.unaligned = true, true
	w := m.workers[0]
	for range 300 {
		clear(m.seen)
		want := fillWithPointers(rng, w.buf.data[:1024], blocks)
		w.words(&buffer{data: w.buf.data, pages: 1}, 0, 1024, noBlock)
		for i := range blocks {
			if m.seen.has(uint32(i)) != want[i] {
				t.Fatalf("block %d: found %v, want %v", i, !want[i], want[i])
			}
		}
	}
}

// fillWithPointers fills data with small numbers, zeros, noise and pointers at
// any byte, and returns the blocks that a search of each byte finds.
func fillWithPointers(rng *rand.Rand, data []byte, blocks []Leak) map[int]bool {
	for i := range data {
		data[i] = byte(rng.Uint32N(3) * rng.Uint32N(256))
	}
	for range 20 {
		at := rng.IntN(len(data) - 8)
		binary.LittleEndian.PutUint64(data[at:], blocks[rng.IntN(len(blocks))].Addr+rng.Uint64N(64))
	}
	found := make(map[int]bool)
	for at := range len(data) - 7 {
		word := binary.LittleEndian.Uint64(data[at:])
		for i, b := range blocks {
			if word-b.Addr < b.Size {
				found[i] = true
			}
		}
	}
	return found
}
