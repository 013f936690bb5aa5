package tracer

import (
	"math"
	"testing"
)

func TestLog2Table(t *testing.T) {
	table := log2Table()
	if table[0] != 0 || table[log2Steps] != 1<<32 {
		t.Errorf("the table goes from %d to %d, want 0 to 1<<32", table[0], table[log2Steps])
	}
	worst := 0.0
	for i := range log2Steps {
		middle := (float64(table[i]) + float64(table[i+1])) / 2 / (1 << 32)
		worst = max(worst, math.Abs(middle-math.Log2(1+(float64(i)+0.5)/log2Steps)))
	}
	if worst > 2e-7 {
		t.Errorf("interpolation is off by up to %g, want at most 2e-7", worst)
	}
}

func TestFilterHoldsNothingBack(t *testing.T) {
	f := newFilter(make([]byte, slotSize*2)) // two slots: all collide
	passes := func(addr uint64) bool {
		slot := *f.slot(addr)
		return slot != 0 && (slot&255 != 1 || slot>>8 == 0 || slot>>8 == addr)
	}
	live := map[uint64]int{}
	for i := range uint64(100_000) {
		addr := 0x7f0000000000 + i*0x9e37%61*16
		if i*0x85eb%7 < 3 && live[addr] == 0 {
			live[addr]++
			f.retain(addr)
		} else if live[addr] > 0 {
			live[addr]--
			f.release(addr)
		}
		for addr, n := range live {
			if n > 0 && !passes(addr) {
				t.Fatalf("step %d: the free of the live block at %#x is held back", i, addr)
			}
		}
	}
	for addr, n := range live {
		if n > 0 {
			f.release(addr)
		}
	}
	for addr := range live {
		if slot := *f.slot(addr); slot != 0 {
			t.Fatalf("the slot of %#x is %#x after all blocks ended", addr, slot)
		}
	}
}

func TestFilterKeepsAFullSlot(t *testing.T) {
	f := newFilter(make([]byte, slotSize))
	for range 300 {
		f.retain(0)
	}
	for range 300 {
		f.release(0)
	}
	if got := *f.slot(0) & 255; got != 255 {
		t.Errorf("a slot that was full counts %d, want 255 for good", got)
	}
}
