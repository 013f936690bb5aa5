package unwind

import (
	"cmp"
	"slices"
	"sort"
)

// Table holds the rows of one executable segment.
//
// A row is 16 bits: the low byte of its address, and its rule's place in a
// dictionary of the 255 most frequent rules. An index by steps of 256 bytes
// gives the upper part of the address and makes a look-up a bisection of one
// step's few rows. Rows with rarer rules have 255 there; a list sorted by row
// number has their rules.
type Table struct {
	Text Range // from the first row's step to the end of the last row's

	rules []Rule
	rows  []row
	words []uint32 // what it is encoded as, but for the serial and with the places of rules in place of their numbers
}

// Words that an encoded table begins with; enum table_word in
// bpf/headers/unwind_maps.h.
const (
	wordSerial = iota
	wordPages
	wordDict
	wordIndex
	wordRows
	wordRare
	wordRares
	wordHead
)

const (
	step = 256
	rare = 255
)

// newTable makes a table of the sorted rows, which must lie within maxText bytes.
func newTable(list []row, rules []Rule) *Table {
	first, last := list[0].at&^(step-1), list[len(list)-1].at
	return &Table{Text: Range{first, last + 1}, rules: rules, rows: list}
}

// Bytes is the size of the encoded table.
func (t *Table) Bytes() int {
	t.pack()
	return 4 * len(t.words)
}

// Encode lays the table out as the words that bpf/headers/unwind_rule.h reads.
// Serial tells it from other tables at the same place; number gives each rule
// its number in the list of rules that all tables share.
func (t *Table) Encode(serial uint32, number func(Rule) uint32) []uint32 {
	t.pack()
	words := slices.Clone(t.words)
	words[wordSerial] = serial
	for i := words[wordDict]; i < words[wordIndex]; i++ {
		words[i] = number(t.rules[words[i]])
	}
	for i := range words[wordRares] {
		at := words[wordRare] + 2*i + 1
		words[at] = number(t.rules[words[at]])
	}
	return words
}

// pack makes the words.
func (t *Table) pack() {
	if t.words != nil {
		return
	}
	dict := t.dictionary()
	pages := int((t.Text.End - t.Text.Start + step - 1) / step)
	words := make([]uint32, wordHead, wordHead+len(dict)+pages+1+(len(t.rows)+1)/2)
	words[wordPages] = uint32(pages)

	code := make([]uint32, len(t.rules)) // of a rule: its place in the dictionary plus 1
	words[wordDict] = uint32(len(words))
	for i, rule := range dict {
		code[rule] = uint32(i) + 1
		words = append(words, rule)
	}
	words[wordIndex] = uint32(len(words))
	next := 0
	for page := range pages {
		words = append(words, uint32(next))
		for next < len(t.rows) && (t.rows[next].at-t.Text.Start)/step == uint64(page) {
			next++
		}
	}
	words = append(words, uint32(next))
	t.words = t.packRows(words, code)
	t.rows = nil
}

// packRows appends the rows, and those of rare rules.
func (t *Table) packRows(words, code []uint32) []uint32 {
	first := len(words)
	words[wordRows] = uint32(first)
	words = append(words, make([]uint32, (len(t.rows)+1)/2)...)
	var rares []uint32
	for i, r := range t.rows {
		c := code[r.rule] - 1
		if c >= rare { // 0 less 1, too
			c = rare
			rares = append(rares, uint32(i), r.rule)
		}
		words[first+i/2] |= (uint32(r.at)&(step-1) | c<<8) << (i % 2 * 16)
	}
	words[wordRare], words[wordRares] = uint32(len(words)), uint32(len(rares)/2)
	return append(words, rares...)
}

// dictionary returns the most frequent rules.
func (t *Table) dictionary() []uint32 {
	count := make([]int, len(t.rules))
	for _, r := range t.rows {
		count[r.rule]++
	}
	var all []uint32
	for rule, n := range count {
		if n > 0 {
			all = append(all, uint32(rule))
		}
	}
	slices.SortFunc(all, func(a, b uint32) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a, b))
	})
	return all[:min(len(all), rare)]
}

// Lookup finds the number of the rule for the byte at offset of an encoded
// table's text, as the BPF program does; 0 where there is none.
func Lookup(words []uint32, offset uint64) uint32 {
	page := offset / step
	if page >= uint64(words[wordPages]) {
		return 0
	}
	row := func(i uint32) uint32 { return words[words[wordRows]+i/2] >> (i % 2 * 16) & 0xffff }
	low, high := words[words[wordIndex]+uint32(page)], words[words[wordIndex]+uint32(page)+1]
	for low < high {
		mid := low + (high-low)/2
		if row(mid)&(step-1) <= uint32(offset&(step-1)) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return 0
	}
	if code := row(low-1) >> 8; code != rare {
		return words[words[wordDict]+code]
	}
	rares := words[words[wordRare]:]
	i := uint32(sort.Search(int(words[wordRares]), func(i int) bool { return rares[2*i] >= low-1 }))
	if i >= words[wordRares] {
		return 0
	}
	return rares[2*i+1]
}
