//go:build amd64

package probe

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

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

// TestEntriesOf has code listed whose description is written in the usual way, and no other.
func TestEntriesOf(t *testing.T) {
	var f frameSection
	plain := f.common(1, "zR", pcrel4)
	f.function(plain, 0x1000, 0x20)
	throwing := f.common(3, "zPLR", 0x9b, 1, 2, 3, 4, pcrel4, pcrel4)
	f.function(throwing, 0x1020, 0x10)
	f.function(plain, 0x9000, 8)
	f.function(plain, 0x1100, 0) // nothing
	f.function(f.common(1, "zSR", pcrel4), 0x1200, 4)
	for _, common := range []int{
		f.common(1, "zR", 0x00), f.common(1, "zR", datarel4), f.common(1, "z"), f.common(1, ""), f.common(1, "zXR", 0, pcrel4), f.common(1, "zPR", 0x50, 0, 0, pcrel4),
		f.common(2, "zR", pcrel4), f.entry([]uint32{0}), f.entry([]uint32{0}, 1, 'z', 'R'), len(f.bytes) - 4,
	} {
		f.function(common, 0x2000, 8)
	}
	f.entry([]uint32{1 << 31, 0, 0})                        // its common part lies before the section
	f.entry([]uint32{uint32(len(f.bytes) + 4 - plain), 16}) // too short
	want := []span{{0x1000, 0x1020}, {0x1020, 0x1030}, {0x9000, 0x9008}, {0x1200, 0x1204}}
	if got := entriesOf(f.bytes, framesAt, binary.LittleEndian); !slices.Equal(got, want) {
		t.Errorf("got %#x, want %#x", got, want)
	}
	ended := append(slices.Clone(f.bytes), 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	if got := entriesOf(ended, framesAt, binary.LittleEndian); !slices.Equal(got, want) {
		t.Errorf("with an end: got %#x, want %#x", got, want)
	}
	for _, length := range []uint32{1, 3, 8, 0xffffffff} { // beyond the section, or of 64 bits
		bad := binary.LittleEndian.AppendUint32(slices.Clone(f.bytes), length)
		if got := entriesOf(append(bad, 0, 0, 0, 0), framesAt, binary.LittleEndian); got != nil {
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
		entriesOf(bad, framesAt, binary.LittleEndian)
	}
}

// TestApart has code left out of which two entries tell different ends.
func TestApart(t *testing.T) {
	got := apart([]span{{90, 99}, {10, 20}, {20, 30}, {10, 20}, {40, 80}, {50, 60}, {70, 75}, {80, 90}, {0, 4}, {0, 8}})
	if want := []span{{10, 20}, {20, 30}, {80, 90}, {90, 99}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestListedIsDescribed has the same told of a real file's code without the linker's table as with it.
func TestListedIsDescribed(t *testing.T) {
	r, err := os.Open(libcPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	im, err := openImage(r)
	if err != nil {
		t.Fatal(err)
	}
	table, _ := im.frameTable()
	im.listed(0)
	spans := im.frames.spans
	if len(spans) < 1000 || len(spans) < len(table)/frameEntry*99/100 {
		t.Errorf("%d pieces of code without the table, %d with it", len(spans), len(table)/frameEntry)
	}
	for _, want := range spans {
		for _, addr := range []uint64{want.lo, want.hi - 1} {
			if got, ok := im.described(addr); !ok || got != want {
				t.Fatalf("at %#x with the table %#x, %v, without it %#x", addr, got, ok, want)
			}
			if got, ok := im.listed(addr); !ok || got != want {
				t.Fatalf("at %#x listed %#x, %v, want %#x", addr, got, ok, want)
			}
		}
	}
}
