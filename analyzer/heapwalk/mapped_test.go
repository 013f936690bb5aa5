package heapwalk

import (
	"slices"
	"testing"
)

// Blocks' own mappings and an arena's memory that touch are one mapping.
func TestOutside(t *testing.T) {
	at := func(start, end uint64) region { return region{span: span{start, end}} }
	regions := []region{at(0x1000, 0x5000), at(0x10a20, 0x12000), at(0x20000, 0x21010), at(0x40000, 0x50000)}
	for _, c := range []struct {
		s    span
		want []span
	}{
		{span{0x6000, 0x9000}, []span{{0x6000, 0x9000}}},
		{span{0x5000, 0x9000}, []span{{0x5000, 0x9000}}},
		{span{0x1000, 0x5000}, nil},
		{span{0x4000, 0x11000}, []span{{0x5000, 0x10000}}},
		{span{0xf000, 0x30000}, []span{{0xf000, 0x10000}, {0x12000, 0x20000}, {0x22000, 0x30000}}},
		{span{0x60000, 0x61000}, []span{{0x60000, 0x61000}}},
	} {
		if got := outside(c.s, regions); !slices.Equal(got, c.want) {
			t.Errorf("%#x: %#x, want %#x", c.s, got, c.want)
		}
	}
}
