package top

import (
	"cmp"
	"fmt"
)

func mappingTable(s *Snapshot, o options) *Table {
	mappings := named(o.filter, s.Mappings, func(m *Mapping) (string, int) { return m.Name + " " + m.Kind + " " + m.Perms, 0 })
	get := func(u Unit, f func(*Mapping) Figure) func(*Mapping) Value {
		return func(m *Mapping) Value { return value(f(m), u) }
	}
	t := tableOf(mappings, func(m *Mapping) ID { return ID{Name: fmt.Sprintf("%016x", m.Start)} }, []column[Mapping]{
		{Column{Name: "start", Title: "ADDRESS", Width: 12, Rank: 3, Doc: "where it starts"}, func(m *Mapping) Value { return text(fmt.Sprintf("%012x", m.Start)) }},
		{size("size", "SIZE", 1, "length of the mapping"), func(m *Mapping) Value { return value(Of(m.End-m.Start), Bytes) }},
		{Column{Name: "perms", Title: "PERM", Width: 4, Rank: 4, Doc: "r read, w write, x execute, p private or s shared"}, func(m *Mapping) Value { return text(m.Perms) }},
		{size("rss", "RSS", 1, "resident"), get(Bytes, func(m *Mapping) Figure { return m.RSS })},
		{size("pss", "PSS", 0, "resident, shared pages divided"), get(Bytes, func(m *Mapping) Figure { return m.PSS })},
		{size("uss", "USS", 2, "resident, its own alone"), get(Bytes, func(m *Mapping) Figure { return m.USS })},
		{size("dirty", "DIRTY", 5, "written to, so that only swap could take it"), get(Bytes, func(m *Mapping) Figure { return m.Dirty })},
		{size("swap", "SWAP", 4, "in swap"), get(Bytes, func(m *Mapping) Figure { return m.Swap })},
		{size("huge", "HUGE", 7, "in transparent huge pages"), get(Bytes, func(m *Mapping) Figure { return m.Huge })},
		{size("locked", "LOCKED", 8, "locked in memory"), get(Bytes, func(m *Mapping) Figure { return m.Locked })},
		{barColumn("resident", "RESIDENT", "how much of the mapping is resident", 6), func(m *Mapping) Value { return drawn(o.drawing().Bar(m.RSS.N, int64(m.End-m.Start), barWidth)) }},
		{Column{Name: "kind", Title: "KIND", Width: 7, Rank: 6, Doc: "file, heap (brk), anon, stack, shmem, …"}, func(m *Mapping) Value { return text(m.Kind) }},
		{Column{Name: "mapping", Title: "MAPPING", Width: 26, Flex: true, Path: true, Doc: "file, or what the kernel calls it"}, func(m *Mapping) Value { return text(cmp.Or(m.Name, "["+m.Kind+"]")) }},
	})
	t.Notes = append([]string{ofProcess(&s.Of) + mappingSum(mappings)}, s.Notes...)
	t.Empty = emptyForOne(&s.Of, o.filter)
	return t
}

func mappingSum(mappings []Mapping) string {
	var rss, pss, uss sum
	for i := range mappings {
		rss.add(mappings[i].RSS)
		pss.add(mappings[i].PSS)
		uss.add(mappings[i].USS)
	}
	if len(mappings) == 0 {
		return ""
	}
	return fmt.Sprintf(": %d mappings, RSS %s PSS %s USS %s", len(mappings), rss.value(Bytes), pss.value(Bytes), uss.value(Bytes))
}
