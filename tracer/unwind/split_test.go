package unwind

import "testing"

// sparse is code of 64 MiB with two crowds of functions and one alone.
func sparse() (list []row, rules []Rule) {
	rules = []Rule{{}, {Kind: SP, CFA: 8}, {Kind: SP, CFA: 16}}
	crowd := func(at uint64, n int) {
		for range n {
			list = append(list, row{at, 1}, row{at + 1, 2}, row{at + 40, 1})
			at += 64
		}
		list = append(list, row{at, 0})
	}
	crowd(0x1040, 1000)
	crowd(0x2000_0f0, 3000)
	crowd(0x3ff_ff10, 1)
	return list, rules
}

// A table is split where nothing is for long: each address keeps its rule, and
// the index of what lies between is gone.
func TestSparseCodeIsSplit(t *testing.T) {
	list, rules := sparse()
	s := Segment{Offset: 0x1000, Size: 0x4000_000, Address: 0x1000}
	parts := s.parts(list, rules, maxParts)
	if len(parts) != 3 {
		t.Fatalf("%d parts, want 3", len(parts))
	}
	number := func(r Rule) uint32 { return uint32(r.CFA) }
	whole := newTable(list, rules)
	all, bytes := whole.Encode(1, number), 0
	end := s.Address
	for _, p := range parts {
		if p.Address != end || p.Offset != p.Address {
			t.Errorf("a part at %#x of the file and %#x, want %#x", p.Offset, p.Address, end)
		}
		end = p.Address + p.Size
		words := p.Table.Encode(1, number)
		bytes += p.Table.Bytes()
		for at := p.Address; at < end; at += 7 {
			want, got := uint32(0), uint32(0)
			if at >= whole.Text.Start {
				want = Lookup(all, at-whole.Text.Start)
			}
			if at >= p.Table.Text.Start {
				got = Lookup(words, at-p.Table.Text.Start)
			}
			if got != want {
				t.Fatalf("rule %d at %#x, want %d", got, at, want)
			}
		}
	}
	if end != s.Address+s.Size {
		t.Errorf("the parts end at %#x", end)
	}
	if bytes*20 > whole.Bytes() {
		t.Errorf("the parts take %d bytes, the whole %d", bytes, whole.Bytes())
	}
}

// However many gaps there are, the number of parts is bounded.
func TestPartsAreBounded(t *testing.T) {
	rules := []Rule{{}, {Kind: SP, CFA: 8}}
	var list []row
	for i := range uint64(1000) {
		list = append(list, row{i << 20, 1}, row{i<<20 + 16 + i, 0})
	}
	if n := len((Segment{Size: 1000 << 20}).parts(list, rules, maxParts)); n != maxParts {
		t.Errorf("%d parts, want %d", n, maxParts)
	}
}
