package tracer

import (
	"slices"
	"testing"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
	"github.com/memtrace/memtrace/tracer/unwind"
)

// A mapping whose code has several tables becomes segments without holes
// between them, each address at its place in its table.
func TestMappingOfSeveralTables(t *testing.T) {
	part := func(offset, size, address, text uint64, slot uint32) codeSegment {
		return codeSegment{unwind.Segment{
			Offset: offset, Size: size, Address: address, Table: &unwind.Table{Text: unwind.Range{Start: text, End: text + 64}},
		}, slot, 7}
	}
	c := &codeFile{segments: []codeSegment{
		part(0x1234, 0x2000, 0x401234, 0x401200, 1), part(0x3234, 0x9000, 0x403234, 0x403300, 2), part(0x90000, 0x1000, 0x490000, 0x490000, 3),
	}}
	m := probe.Mapping{Range: probe.Range{Start: 0x7000_1000, End: 0x7000_e000, Offset: 0x1000}}
	want := []bpf.MemtraceUnwindSegment{
		{Start: 0x7000_1000, End: 0x7000_3234, Offset: ^uint64(0x200) + 1, Table: 1, Serial: 7},
		{Start: 0x7000_3234, End: 0x7000_e000, Offset: ^uint64(0xcc) + 1, Table: 2, Serial: 7},
	}
	if got := c.place(m); !slices.Equal(got, want) {
		t.Errorf("got %+x, want %+x", got, want)
	}
	plain := []bpf.MemtraceUnwindSegment{{Start: m.Start, End: m.End}}
	if got := (*codeFile)(nil).place(m); !slices.Equal(got, plain) {
		t.Errorf("got %+x for a mapping without a file", got)
	}
}
