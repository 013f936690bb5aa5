package reach

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/procfs"
)

// TestBlocksSideBySide: a block that begins within what is read at a time, where
// the one before it ends, and reaches on, is read like any other.
func TestBlocksSideBySide(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "side_by_side")
	compile(t, "gcc", "-O1", "-o", program, programs+"/side_by_side.c")
	c := startCorpus(t, program)
	r, err := Scan(c.process, c.each, Options{AllSeen: true, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Sums[Reachable].Count != 3 {
		t.Errorf("%+v, want 3 reachable blocks", r.Sums)
	}
}

func TestZones(t *testing.T) {
	all := joined([]zone{{50, 60}, {10, 20}, {20, 30}, {25, 28}, {70, 70}})
	if want := (zones{{10, 30}, {50, 60}}); !slices.Equal(all, want) {
		t.Errorf("joined: %v, want %v", all, want)
	}
	for at, want := range map[uint64]bool{9: false, 10: true, 29: true, 30: false, 49: false, 59: true, 60: false} {
		if all.has(at) != want {
			t.Errorf("%d is in them: %v", at, !want)
		}
	}
	for _, c := range []struct{ at, end, want uint64 }{{0, 100, 30}, {15, 55, 20}, {30, 50, 0}, {12, 14, 2}} {
		if n := all.bytes(c.at, c.end); n != c.want {
			t.Errorf("from %d to %d are %d bytes, want %d", c.at, c.end, n, c.want)
		}
	}
	without := all.without(zones{{5, 12}, {15, 16}, {29, 55}, {59, 90}})
	if want := (zones{{12, 15}, {16, 29}, {55, 59}}); !slices.Equal(without, want) {
		t.Errorf("without: %v, want %v", without, want)
	}
}

// TestClassesOfScudo has mappings as programs on scudo of LLVM 19 have them. The regions' order is each process's own,
// so that any class can have the lowest; a thread's stack and a large block may lie right below all of them.
func TestClassesOfScudo(t *testing.T) {
	const base = 0x7f5ecadff000
	page := uint64(os.Getpagesize())
	class := func(region, gap uint64) zone {
		at := base + region*classRegion + gap*page
		return zone{at, at + 256<<10}
	}
	for name, c := range map[string]struct {
		below  uint64 // where what is reserved below the first memory begins
		memory []zone
		want   int // so many of the last ones are the allocator's
	}{
		"the lowest region":         {base, []zone{class(0, 1), class(2, 16), class(3, 5)}, 3},
		"the lowest and one more":   {base, []zone{class(0, 16), class(2, 1)}, 2},
		"others":                    {base, []zone{class(1, 1), class(2, 16), class(3, 5)}, 3},
		"a stack below":             {base - 8<<20 - page, []zone{{base - 8<<20, base}, class(1, 1), class(3, 5)}, 2},
		"a stack of 256 MiB below":  {base - 256<<20 - page, []zone{{base - 256<<20, base}, class(1, 1), class(3, 5)}, 2},
		"a large block below":       {base - 3<<20 - 3*page, []zone{{base - 3<<20 - page, base}, class(1, 1), class(3, 5)}, 2},
		"a stack and no class else": {base - 8<<20 - page, []zone{{base - 8<<20, base}, class(1, 1)}, 0},
		"one alone":                 {base, []zone{class(2, 16)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var s space
			at := c.below
			for _, z := range c.memory {
				s.maps = append(s.maps, vma{start: at, end: z.start, kind: procfs.KindAnon},
					vma{start: z.start, end: z.end, kind: procfs.KindAnon, perms: procfs.Read | procfs.Write, read: true})
				at = z.end
			}
			s.maps = append(s.maps, vma{start: at, end: base + 8*classRegion, kind: procfs.KindAnon})
			x := indexOf(t, []Leak{{Addr: c.memory[len(c.memory)-1].start + 64, Size: 64}})
			if got, want := s.enclosed(x), c.memory[len(c.memory)-c.want:]; !slices.Equal(got, want) {
				t.Errorf("%x, want %x", got, want)
			}
		})
	}
}

// TestJemallocExtents takes words that gdb found in programs on jemalloc 5.3.0 and 5.2.1.
func TestJemallocExtents(t *testing.T) {
	for _, c := range []struct {
		layout            extentLayout
		bits, addr, sized uint64
		want              zone
	}{
		{20, 0x10000170b002, 0x7ff343200000, 0x7000, zone{0x7ff343200000, 0x7ff343207000}},   // slab
		{20, 0x2d0a000, 0x7ff345c08280, 0x15000, zone{0x7ff345c08000, 0x7ff345c1d000}},       // 80 KiB and a page
		{20, 0x10000420a000, 0x7ff345480900, 0x301000, zone{0x7ff345480000, 0x7ff345781000}}, // 3 MiB and a page
		{20, 0xe86a001, 0x7ff34401f000, 0x1e1000, zone{0x7ff34401f000, 0x7ff344200000}},      // free
		{18, 0x5cf002, 0x7f75b5600000, 0x7000, zone{0x7f75b5600000, 0x7f75b5607000}},
		{18, 0xb4e000, 0x7f75b8009d80, 0x15003, zone{0x7f75b8009000, 0x7f75b801e000}},
		{18, 0x10000100e000, 0x7f68b6e00f40, 0x201000, zone{0x7f68b6e00000, 0x7f68b7001000}},
		{18, 0x3a3e001, 0x7f75b641f000, 0x1e1000, zone{0x7f75b641f000, 0x7f75b6600000}},
		{20, 0x5cf002, 0x7f75b5600000, 0x2000000, zone{}}, // a slab that is too large
		{20, 0x2d0a000, 0x7ff345c08280, 0x16000, zone{}},  // not of its class's size
		{20, 0x2d0a000, 0x7ff345c08288, 0x15000, zone{}},  // where no block can be
		{20, 0x7f75b5600000, 0x7f75b641f000, 0x1e1000, zone{}},
		{20, 0, 0, 0, zone{}},
	} {
		if got := c.layout.extent(c.bits, c.addr, c.sized); got != c.want {
			t.Errorf("%#x %#x %#x: %x, want %x", c.bits, c.addr, c.sized, got, c.want)
		}
	}
}

// TestJemallocCacheStacks: dozens of stacks in a row are found, a few are not,
// and none outside of the allocator's memory.
func TestJemallocCacheStacks(t *testing.T) {
	const at, room = 0x7f0000010000 - 0x400, 200 * 8 // the lower half of the address overflows between two of them
	row := func(n uint64) (w []uint64) {
		w = append(w, 1, 2)
		for i := range n {
			full, empty := at+i*room, at+(i+1)*room
			w = append(w, empty-8*(i%20), i, (full+8*(i%7))&0xffff|full&0xffff<<16|empty&0xffff<<32)
		}
		return append(w, 3)
	}
	extents := zones{{at &^ 0xfff, at + 1<<20}}
	if got := binsIn(row(40), extents, newBin); !slices.Equal(got, []zone{{at, at + 40*room}}) {
		t.Errorf("40 stacks: %x", got)
	}
	if got := binsIn(row(20), extents, newBin); len(got) != 0 {
		t.Errorf("20 stacks: %x", got)
	}
	if got := binsIn(row(40), zones{{at + room, at + 1<<20}}, newBin); len(got) != 1 || got[0].start < at+room {
		t.Errorf("40 stacks, of which the first is elsewhere: %x", got)
	}
	old := func(n uint64) (w []uint64) {
		for i := range n {
			w = append(w, i%20<<32, i, at+(i+1)*room)
		}
		return w
	}
	if got := binsIn(old(40), extents, oldBin); !slices.Equal(got, []zone{{at, at + 40*room}}) {
		t.Errorf("40 stacks of 5.2: %x", got)
	}
}

// TestWritableSegments takes the beginning of an ELF file with a segment of code and one of data.
func TestWritableSegments(t *testing.T) {
	const base = 0x7f0000000000
	w := make([]uint64, 32)
	w[0], w[4], w[7] = 0x00010102464c457f, 64, 2
	copy(w[8:], []uint64{5<<32 | 1, 0, 0, 0, 0x1000, 0x1000, 0x1000})
	copy(w[15:], []uint64{6<<32 | 1, 0x1f00, 0x2f00, 0x2f00, 0x100, 0x5000, 0x1000})
	if got := writable(base, w); !slices.Equal(got, []zone{{base + 0x2f00, base + 0x7f00}}) {
		t.Errorf("%x", got)
	}
	w[4] = 1 << 40
	if got := writable(base, w); len(got) != 0 {
		t.Errorf("headers beyond what was read: %x", got)
	}
}

// TestMimallocPageRecord takes the words that a program on mimalloc 3.0 has in front of a block of 100,000 bytes.
func TestMimallocPageRecord(t *testing.T) {
	const slice, first = 0x7fa6b9e10000, 0x7fa6b9e10080
	record := []uint64{0, 0, 0x100010001, 0, 0, 0x1c000, first, 0x100}
	at := func(place uint64, change func(w []uint64)) bool {
		b, err := newBuffer()
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		b.addr = slice &^ (winBytes - 1)
		w := slices.Clone(record)
		change(w)
		off := slice - b.addr + place
		copy(b.words(off, off+64), w)
		m := &marker{x: indexOf(t, []Leak{{Addr: first, Size: 100_000}, {Addr: slice + 0x40000, Size: 8}}), mimalloc: true}
		return (&worker{marker: m}).inPageRecord(0, first, b, unsafe.Pointer(&b.data[off+pageFirst]))
	}
	if !at(0, func([]uint64) {}) {
		t.Error("the record is not known")
	}
	for name, is := range map[string]bool{
		"elsewhere in the slice":         at(0x40, func([]uint64) {}),
		"a size that is too small":       at(0, func(w []uint64) { w[5] = 0x18000 }),
		"more in use than there are":     at(0, func(w []uint64) { w[2] = 0x100010002 }),
		"a list of which nothing is set": at(0, func(w []uint64) { w[2] = 0 }),
	} {
		if is {
			t.Errorf("%s is taken for a record", name)
		}
	}
}

// TestGuardedRecord takes the words that GWP-ASan in scudo of LLVM 19 has of a block that is in use, and what is like them.
func TestGuardedRecord(t *testing.T) {
	const start, size = 0x7f2b2379e000, 16
	in := func(change func(w []uint64)) bool {
		var r [guardedRecord]uint64
		r[0], r[1], r[2], r[guardedThread], r[guardedLength], r[guardedFreed] = start, size, 0xd08a_c604, 13860, 11, ^uint64(0)
		change(r[:])
		return isGuarded(&r)
	}
	if !in(func([]uint64) {}) {
		t.Error("the record is not known")
	}
	for name, is := range map[string]bool{
		"a pointer and a length alone": in(func(w []uint64) { clear(w[2:]) }),
		"no thread":                    in(func(w []uint64) { w[guardedThread] = 0 }),
		"a trace that is too long":     in(func(w []uint64) { w[guardedLength] = 257 }),
		"a block that was freed":       in(func(w []uint64) { w[guardedFreed] = 13860 }),
	} {
		if is {
			t.Errorf("%s is taken for a record", name)
		}
	}
}

// TestLeafCacheOfJemalloc takes the words that a thread of jemalloc 5.3.0 has in its cache of the tree of extents.
func TestLeafCacheOfJemalloc(t *testing.T) {
	const key, leaf, at = 0x7efdc0000000, 0x7efde0e000c0, 0x7efde1790948
	b, err := newBuffer()
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	b.addr = at &^ (winBytes - 1)
	w := &worker{marker: &marker{base: zones{{0x7efde0e00000, 0x7efde1000000}}}}
	for name, c := range map[string]struct {
		key, next, off uint64
		want           bool
	}{
		"a leaf":                          {key, leaf, at - b.addr, true},
		"no multiple of what a leaf has":  {key + 4096, leaf, at - b.addr, false},
		"nothing of jemalloc's behind it": {key, at, at - b.addr, false},
		"the last word that is read":      {key, leaf, winBytes - 8, false},
	} {
		copy(b.words(c.off, min(c.off+16, winBytes)), []uint64{c.key, c.next})
		if got := w.inLeafCache(c.key, b, unsafe.Pointer(&b.data[c.off])); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
