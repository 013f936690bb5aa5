package heapwalk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
)

// A Sample is what some of a group's leaked blocks begin with.
type Sample struct {
	Text  string // quoted text, or words in hexadecimal
	Count uint64 // of the blocks that were looked at
	Addr  uint64 // of one of them
}

// A SampleKey is a group's leaks of one kind.
type SampleKey struct {
	Group uint32
	Kind  reach.Kind
}

const (
	sampleBlocks = 512 // looked at of each group and kind
	sampleKinds  = 3   // kept
	sampleBytes  = 48
)

// Samples reads what leaked blocks begin with: of each group and kind what is
// most common.
func (r *Result) Samples(p *procfs.Process, thread int) (map[SampleKey][]Sample, error) {
	if thread == 0 {
		thread = p.PID()
	}
	m := &memory{p: p, tid: thread, call: reach.Briefly}
	looked := make(map[SampleKey]int)
	found := make(map[SampleKey]map[string]*Sample)
	for _, l := range r.Leaks {
		key := SampleKey{l.Group, l.Kind}
		if looked[key]++; looked[key] > sampleBlocks {
			continue
		}
		text := m.sample(l, r.Heap.Groups[l.Group].Class)
		if text == "" {
			continue
		}
		if found[key] == nil {
			found[key] = make(map[string]*Sample)
		}
		if found[key][text] == nil {
			found[key][text] = &Sample{Text: text, Addr: l.Addr}
		}
		found[key][text].Count++
	}
	out := make(map[SampleKey][]Sample, len(found))
	for key, texts := range found {
		var all []Sample
		for _, s := range texts {
			all = append(all, *s)
		}
		slices.SortFunc(all, func(a, b Sample) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Addr, b.Addr)) })
		out[key] = all[:min(len(all), sampleKinds)]
	}
	return out, nil
}

// sample describes what a block begins with; "" where it cannot be read.
func (m *memory) sample(l Leak, class Class) string {
	words := make([]uint64, min(l.Size, sampleBytes)/8)
	if len(words) == 0 || m.words(l.Addr, words) != nil {
		return ""
	}
	switch class {
	case Zeros:
		return ""
	case Text:
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		whole := true
		if end := bytes.IndexByte(b, 0); end >= 0 {
			b, whole = b[:end], false
		}
		text := strconv.QuoteToASCII(string(b))
		if whole {
			text += "…"
		}
		return text
	}
	text := ""
	for i, w := range words[:min(len(words), 3)] {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%#x", w)
	}
	return text
}
