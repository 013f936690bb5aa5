package unwind

import (
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

const pcRel4 = pePCRel | peS4

func rangesOf(frames []byte) []Range { return Ranges(elf.EM_X86_64, frames, framesAt, 0) }

// frameSection writes entries of .eh_frame.
type frameSection struct{ bytes []byte }

func (f *frameSection) entry(words []uint32, rest ...byte) (at int) {
	at = len(f.bytes)
	for (len(words)*4+len(rest))%4 != 0 {
		rest = append(rest, 0)
	}
	f.bytes = binary.LittleEndian.AppendUint32(f.bytes, uint32(len(words)*4+len(rest)))
	for _, w := range words {
		f.bytes = binary.LittleEndian.AppendUint32(f.bytes, w)
	}
	f.bytes = append(f.bytes, rest...)
	return at
}

func (f *frameSection) common(version byte, augmentation string, data ...byte) int {
	rest := append([]byte{version}, augmentation...)
	rest = append(rest, 0, 1, 0x78, 16, byte(len(data)))
	return f.entry([]uint32{0}, append(rest, data...)...)
}

const framesAt = 0x5000

// function describes code at lo, by the common part at an offset.
func (f *frameSection) function(common int, lo uint64, size uint32) {
	here := len(f.bytes)
	f.entry([]uint32{uint32(here + 4 - common), uint32(lo - framesAt - uint64(here) - 8), size}, 0)
}

// TestRanges has code listed whose description is sound, and no other.
func TestRanges(t *testing.T) {
	var f frameSection
	plain := f.common(1, "zR", pcRel4)
	f.function(plain, 0x1000, 0x20)
	throwing := f.common(3, "zPLR", 0x9b, 1, 2, 3, 4, pcRel4, pcRel4)
	f.function(throwing, 0x1020, 0x10)
	f.function(plain, 0x9000, 8)
	f.function(plain, 0x1100, 0) // nothing
	f.function(f.common(1, "zSR", pcRel4), 0x1200, 4)
	for _, common := range []int{
		f.common(1, "zR", 0x00), f.common(1, "z"), f.common(1, ""), f.common(1, "zXR", 0, pcRel4),
		f.common(1, "zPR", 0x50, 0, 0, pcRel4),
		f.common(2, "zR", pcRel4), f.entry([]uint32{0}), f.entry([]uint32{0}, 1, 'z', 'R'), len(f.bytes) - 4,
	} {
		f.function(common, 0x2000, 8)
	}
	f.entry([]uint32{1 << 31, 0, 0})                        // its common part lies before the section
	f.entry([]uint32{uint32(len(f.bytes) + 4 - plain), 16}) // too short
	want := []Range{{0x1000, 0x1020}, {0x1020, 0x1030}, {0x9000, 0x9008}, {0x1200, 0x1204}}
	if got := rangesOf(f.bytes); !slices.Equal(got, want) {
		t.Errorf("got %#x, want %#x", got, want)
	}
	ended := append(slices.Clone(f.bytes), 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	if got := rangesOf(ended); !slices.Equal(got, want) {
		t.Errorf("with an end: got %#x, want %#x", got, want)
	}
	for _, length := range []uint32{1, 3, 8, 0xffffffff} { // beyond the section, or of 64 bits
		bad := binary.LittleEndian.AppendUint32(slices.Clone(f.bytes), length)
		if got := rangesOf(append(bad, 0, 0, 0, 0)); got != nil {
			t.Errorf("a last entry of %#x bytes: got %#x", length, got)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 { // does not crash
		bad := slices.Clone(f.bytes[:random.IntN(len(f.bytes)+1)])
		for range random.IntN(8) {
			if len(bad) > 0 {
				bad[random.IntN(len(bad))] = byte(random.Uint32())
			}
		}
		rangesOf(bad)
	}
}
