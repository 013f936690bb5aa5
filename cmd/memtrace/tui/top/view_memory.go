package top

import "strings"

// memoryTable is the machine's books: the entries at each depth add up to the
// entry above them, and those at the top to the machine's memory.
func memoryTable(s *Snapshot, o options) *Table {
	total := s.Machine.Total
	t := tableOf(s.Books, func(e *Entry) ID { return ID{Name: e.Name} }, []column[Entry]{
		{Column{Name: "entry", Title: "WHERE THE MEMORY IS", Width: 20, Doc: "what it is used for; indented entries are parts of the one above"},
			func(e *Entry) Value {
				v := text(strings.Repeat("  ", e.Depth) + e.Name)
				v.Strong = e.Remainder
				return v
			}},
		{size("size", "SIZE", 0, "bytes; a remainder may be negative"), func(e *Entry) Value {
			v := value(e.Size, Bytes)
			v.Strong = e.Remainder
			return v
		}},
		{Column{Name: "of_total", Title: "%", Unit: Percent, Width: 5, Doc: "of the machine's memory"},
			func(e *Entry) Value { return value(share(e.Size, total), Percent) }},
		{barColumn("bar", "", "part of the machine's memory", 1),
			func(e *Entry) Value { return drawn(o.drawing().Bar(e.Size.N, total.N, barWidth)) }},
		{Column{Name: "source", Title: "FROM", Width: 10, Flex: true, Rank: 2, Doc: "the kernel's file and name"},
			func(e *Entry) Value { return text(e.Source) }},
	})
	t.Fixed = true
	t.Notes = s.Notes
	t.Empty = "the machine's memory could not be read"
	return t
}
