//go:build linux && !viewer

package runtimemap

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"
)

// words are memory of this process, which it can read as that of another. What is written to it is what a process would have.
type words []uint64

func newWords(t *testing.T, n int) words {
	w := make(words, n)
	t.Cleanup(func() { runtime.KeepAlive(w) })
	return w
}

func (w words) at(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&w[i]))) }

func newMemory(room int) memory {
	m := memory{pid: os.Getpid()}
	m.clear(room)
	return m
}

func TestMemoryReadsAcrossPages(t *testing.T) {
	w := newWords(t, 3*pageSize/8)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*8)
	for i := range raw {
		raw[i] = byte(i * 7)
	}
	m := newMemory(1 << 20)
	for off := pageSize - 16; off < pageSize+16; off++ {
		if got, want := m.word(w.at(0)+uint64(off)), binary.LittleEndian.Uint64(raw[off:]); got != want {
			t.Errorf("the word at %d is %#x, want %#x", off, got, want)
		}
		if got, want := m.int32(w.at(0)+uint64(off)), int32(binary.LittleEndian.Uint32(raw[off:])); got != want {
			t.Errorf("the number at %d is %#x, want %#x", off, got, want)
		}
	}
	if m.err != nil {
		t.Error(m.err)
	}
	if m.word(8); m.err == nil {
		t.Error("reading the first page, which nobody has, succeeded")
	}
}

// fakeJVM has one class loader with one class, whose list and pool the test then bends.
const loaderAt, klassAt, poolAt = 1000, 2000, 3000 // of words

func fakeJVM(t *testing.T) (*jvm, words) {
	w := newWords(t, 4096)
	j := &jvm{memory: newMemory(metaspaceRoom), structs: vmStructs{
		{"ClassLoaderDataGraph", "_head"}: w.at(0), {"ClassLoaderData", "_next"}: 8, {"ClassLoaderData", "_klasses"}: 16,
		{"Klass", "_next_link"}: 8, {"Klass", "_layout_helper"}: 16, {"InstanceKlass", "_constants"}: 24, {"ConstantPool", "_pool_holder"}: 32,
	}}
	w[0] = w.at(loaderAt)
	w[loaderAt+2] = w.at(klassAt)
	w[klassAt+2], w[klassAt+3] = 64, w.at(poolAt)
	w[poolAt+4] = w.at(klassAt)
	return j, w
}

func TestClassIsFound(t *testing.T) {
	j, w := fakeJVM(t)
	chunks, err := j.walkClasses()
	if err != nil {
		t.Error(err)
	}
	for _, at := range []int{klassAt, poolAt} {
		if !chunks[w.at(at)&^(rootChunk-1)] {
			t.Errorf("what is at %#x is not found: %v", w.at(at), chunks)
		}
	}
	j, w = fakeJVM(t)
	w[poolAt+4]++ // the pool is another class's
	if chunks, _ := j.walkClasses(); len(chunks) != 0 {
		t.Errorf("a class is found that its pool does not know: %v", chunks)
	}
}

// Lists that lead back to themselves, or nowhere, end, and it is said that they were not read to their ends.
func TestHostileClassesEnd(t *testing.T) {
	for name, bend := range map[string]func(w words){
		"loaders in a circle": func(w words) { w[loaderAt+1] = w.at(loaderAt) },
		"classes in a circle": func(w words) { w[klassAt+1] = w.at(klassAt) },
		"a loader nowhere":    func(w words) { w[loaderAt+1] = 1 << 40 },
		"a class nowhere":     func(w words) { w[klassAt+1] = 1<<64 - 8 },
		"a pool nowhere":      func(w words) { w[klassAt+3] = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			j, w := fakeJVM(t)
			bend(w)
			chunks, err := j.walkClasses()
			if len(chunks) > maxChunks || err == nil {
				t.Errorf("%d chunks, %v", len(chunks), err)
			}
			if len(j.memory.pages) > keptPages {
				t.Errorf("%d pages are kept", len(j.memory.pages))
			}
		})
	}
}

// A table whose entries have no size, or that has no end, is refused or left.
func TestHostileTableEnds(t *testing.T) {
	for name, stride := range map[string]uint64{"no size": 0, "huge": 1 << 40, "without an end": 8} {
		t.Run(name, func(t *testing.T) {
			w := newWords(t, 4096)
			for i := range w {
				w[i] = w.at(8) // every pointer leads to a name, none of which ends
			}
			symbols := make(map[string]uint64)
			for i, symbol := range vmSymbols {
				symbols[symbol] = w.at(i)
			}
			w[0] = w.at(1024)
			for i := 1; i < 6; i++ {
				w[i] = 0
			}
			w[6] = stride
			m := newMemory(jvmRoom)
			if s, err := readStructs(&m, symbols, 0); err == nil {
				t.Errorf("found %v", s)
			}
		})
	}
}

func TestChunkHeaders(t *testing.T) {
	const at = 1 << 40
	for _, c := range []struct {
		name   string
		header [5]uint64 // size, flags, heap, begin and end of objects
		want   uint64
	}{
		{"page", [5]uint64{256 << 10, 4, 1, at + 0x1148, at + 256<<10}, 256 << 10},
		{"large object", [5]uint64{0x42000, 4, 1, at + 0x1148, at + 0x41158}, 0x42000},
		{"odd size", [5]uint64{0x41158, 4, 1, at + 0x1148, at + 0x41158}, 0x42000},
		{"zeroes", [5]uint64{}, 0},
		{"too large", [5]uint64{1 << 50, 4, 1, at + 0x1148, at + 0x2000}, 0},
		{"begins before itself", [5]uint64{256 << 10, 4, 1, at - 8, at + 0x2000}, 0},
		{"begins late", [5]uint64{256 << 10, 4, 1, at + 128<<10, at + 256<<10}, 0},
		{"ends before it begins", [5]uint64{256 << 10, 4, 1, at + 0x1148, at + 0x1000}, 0},
		{"ends behind itself", [5]uint64{256 << 10, 4, 1, at + 0x1148, at + 257<<10}, 0},
		{"glibc's arena", [5]uint64{at + 0x30, 0, 0x56000, 0x69000, 0x1000}, 0},
	} {
		b := make([]byte, chunkHeader)
		for i, word := range c.header {
			binary.LittleEndian.PutUint64(b[i*8:], word)
		}
		if got := chunkSize(at, b); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

// Headers of pages that all claim to reach over everything don't have each of them compared with each area.
func TestOverlappingPagesAreLeftOut(t *testing.T) {
	const n, at = 1 << 10, 1 << 40
	var pages []Part
	var areas []area
	for i := range uint64(n) {
		start := at + i*chunkAlign
		pages = append(pages, Part{V8Heap, start, start + maxChunk})
		areas = append(areas, area{start, start + chunkAlign, true, i == n-1})
	}
	if got := codeApart(pages, areas); len(got) != 1 || got[0] != (Part{V8Code, at, at + maxChunk}) {
		t.Errorf("%d pages are left, the first %+v", len(got), got[0])
	}
}

func TestPartsAreApart(t *testing.T) {
	got, cut := apart([]Part{
		{"c", 0x9000, 0xa000}, {"kernel", 1 << 63, 1<<63 + 1}, {"a", 0x1000, 0x4000}, {"in a", 0x2000, 0x3000}, {"empty", 0x5000, 0x5000},
		{"backwards", 0x6000, 0x5000}, {"b", 0x4000, 0x5000},
	})
	want := []Part{{"a", 0x1000, 0x4000}, {"b", 0x4000, 0x5000}, {"c", 0x9000, 0xa000}}
	if !slices.Equal(got, want) || cut {
		t.Errorf("%v, %v, want %v", got, cut, want)
	}
	many := make([]Part, maxParts+1)
	for i := range many {
		many[i] = Part{"p", uint64(i) * 2 * pageSize, uint64(i)*2*pageSize + pageSize}
	}
	if got, cut := apart(many[:maxParts]); len(got) != maxParts || cut {
		t.Errorf("%d parts, cut %v", len(got), cut)
	}
	if got, cut := apart(many); len(got) != maxParts || !cut {
		t.Errorf("%d parts, cut %v", len(got), cut)
	}
}

// However much is read, little of it is kept, and nothing once the reading is over.
func TestFewPagesAreKept(t *testing.T) {
	const pages = 3 * keptPages
	w := newWords(t, (pages+1)*pageSize/8)
	m := newMemory(2 * pages * pageSize)
	for i := range pages {
		w[i*pageSize/8] = uint64(i)
		if got := m.word(w.at(i * pageSize / 8)); got != uint64(i) {
			t.Fatalf("page %d has %d", i, got)
		}
		if len(m.pages) > keptPages {
			t.Fatalf("%d pages are kept", len(m.pages))
		}
	}
	if got := m.word(w.at(pageSize / 8)); got != 1 || m.err != nil {
		t.Errorf("read again: %d, %v", got, m.err)
	}
	if m.forget(); len(m.pages) != 0 {
		t.Errorf("%d pages are kept", len(m.pages))
	}
}

// An older JVM can't write names, and is not asked: it might print its threads.
func TestOlderJVMIsNotAsked(t *testing.T) {
	for major, asked := range map[int32]bool{11: false, 16: false, 17: true, 25: true} {
		j, w := fakeJVM(t)
		j.structs[vmField{"Universe", "_collectedHeap"}] = w.at(5)
		j.major = major
		starting, err := (&Runtime{kind: j}).Answers()
		if asked != starting || err == nil || asked != errors.Is(err, errStarting) {
			t.Errorf("JDK %d: %v, %v", major, starting, err)
		}
	}
}
