package tracer

import (
	"fmt"
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

// Whatever a file's headers say, its segments lie within the mapping, in order.
func TestMappingOfHostileSegments(t *testing.T) {
	const end = ^uint64(0)
	part := func(offset, size, address uint64) codeSegment {
		return codeSegment{unwind.Segment{Offset: offset, Size: size, Address: address, Table: &unwind.Table{Text: unwind.Range{Start: address, End: address + 64}}}, 1, 7}
	}
	m := probe.Mapping{Range: probe.Range{Start: 0x7000_1000, End: 0x7000_e000, Offset: 0x1000}}
	for _, list := range [][]codeSegment{
		{part(0x9000, 0x1000, 0x9000), part(0x3000, 0x1000, 0x3000), part(0x6000, 0x1000, 0x6000)},
		{part(0, end, 0), part(end-10, 5, 0x1000), part(0x2000, end-0x1000, end-0x2000)},
		{part(0x2000, 0, 0x2000), part(0x1000, 1, end)},
	} {
		at := m.Start
		for _, s := range (&codeFile{segments: list}).place(m) {
			if s.Start != at || s.End < s.Start || s.End > m.End {
				t.Errorf("%+v: a segment from %#x to %#x, want one from %#x", list, s.Start, s.End, at)
			}
			at = s.End
		}
		if at != m.End {
			t.Errorf("%+v: the segments end at %#x", list, at)
		}
	}
}

// A process that has more mappings than there is room for keeps those with tables.
func TestMappingsBeyondTheRoom(t *testing.T) {
	s := &spaces{shares: newQuota(80), problems: newProblems()}
	a := account{uid: 1}.forSystem()
	var list []bpf.MemtraceUnwindSegment
	for i := range uint32(40) {
		list = append(list, bpf.MemtraceUnwindSegment{Start: uint64(i), Table: i % 4 / 3})
	}
	if got := s.fit(1, a, slices.Clone(list)); len(got) != 10 || got[9].Start != 39 || len(s.problems.lines) != 1 {
		t.Errorf("%d segments, and it says %q", len(got), s.problems.lines)
	}
	if got := s.fit(1, a, slices.Clone(list[:12])); len(got) != 12 || len(s.problems.lines) != 1 {
		t.Errorf("%d segments of 12, and it says %q", len(got), s.problems.lines)
	}
}

// A process with many mappings that can't be read has them listed once, whether they are still there or not.
func TestUnreadMappingsAreListedOnce(t *testing.T) {
	var unread []unreadCode
	var now []probe.Mapping
	for i := range uint64(3000) {
		m := probe.Mapping{Inode: i + 1, Path: "/file"}
		unread = append(unread, unreadCode{m, fmt.Errorf("%d", i)})
		if i%2 == 0 {
			now = append(now, m)
		}
	}
	lists := 0
	list := func() ([]probe.Mapping, error) {
		lists++
		return now, nil
	}
	if why := stillMapped(unread, list); len(why) != 1500 || why[1].Error() != "2" || lists != 1 {
		t.Errorf("%d are still mapped, after %d lists", len(why), lists)
	}
	if why := stillMapped(nil, list); why != nil || lists != 1 {
		t.Errorf("nothing is unread: %v after %d lists", why, lists)
	}
}
