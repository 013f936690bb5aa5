package unwind

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// minGap is the least code without call frame information that a table is
	// split at: its index would take 4 KiB.
	minGap = 256 << 10
	// maxParts bounds the tables of one segment.
	maxParts = 32
)

// split gives each segment its rows, and splits it where there are none for long.
func (f *File) split(all *rows) error {
	list := all.merged()
	whole := f.Segments
	f.Segments = nil
	found, text := false, uint64(0)
	for i, s := range whole {
		from, _ := slices.BinarySearchFunc(list, s.Address, func(r row, at uint64) int { return cmp.Compare(r.at, at) })
		to, _ := slices.BinarySearchFunc(list, s.Address+s.Size+1, func(r row, at uint64) int { return cmp.Compare(r.at, at) })
		if from >= to {
			f.Segments = append(f.Segments, s)
			continue
		}
		if text += list[to-1].at - list[from].at; text >= maxText {
			return fmt.Errorf("%w: its code spans more than %d bytes", ErrTooMuch, uint64(maxText))
		}
		n := min(maxParts, maxSegments-len(f.Segments)-(len(whole)-1-i))
		f.Segments = append(f.Segments, s.parts(list[from:to], all.rules, n)...)
		found = true
	}
	if !found {
		return ErrNoTables
	}
	return nil
}

// parts returns the parts of a segment, each with its table; at most n.
func (s Segment) parts(list []row, rules []Rule, n int) (out []Segment) {
	part := func(next uint64, rows []row) {
		p := Segment{Offset: s.Offset, Size: next - s.Address, Address: s.Address, Table: newTable(rows, rules)}
		p.Table.pack()
		out = append(out, p)
		s.Offset, s.Size, s.Address = s.Offset+p.Size, s.Size-p.Size, next
	}
	first := 0
	for _, i := range gaps(list, rules, n-1) {
		part(list[i].at&^(step-1), list[first:i])
		first = i
	}
	part(s.Address+s.Size, list[first:])
	return out
}

// gaps returns which rows come after the longest n stretches without a rule, in order.
func gaps(list []row, rules []Rule, n int) (after []int) {
	length := func(i int) uint64 { return list[i].at&^(step-1) - list[i-1].at }
	for i := 1; i < len(list); i++ {
		if rules[list[i-1].rule].Kind == None && list[i].at-list[i-1].at >= minGap {
			after = append(after, i)
		}
	}
	slices.SortFunc(after, func(a, b int) int { return cmp.Compare(length(b), length(a)) })
	after = after[:min(len(after), n)]
	slices.Sort(after)
	return after
}
