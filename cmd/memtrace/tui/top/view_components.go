package top

func componentTable(s *Snapshot, o options) *Table {
	components := named(o.filter, s.Components, func(c *Component) (string, int) { return c.Name + " " + c.Kind, 0 })
	largest := int64(0)
	for i := range components {
		largest = max(largest, components[i].PSS.N)
	}
	get := func(u Unit, f func(*Component) Figure) func(*Component) Value {
		return func(c *Component) Value { return value(f(c), u) }
	}
	t := tableOf(components, func(c *Component) ID { return ID{Name: c.Kind + " " + c.Name} }, []column[Component]{
		{size("pss", "PSS", 0, "what all processes together have of it in memory"), get(Bytes, func(c *Component) Figure { return c.PSS })},
		{size("uss", "USS", 1, "the part that only one process maps"), get(Bytes, func(c *Component) Figure { return c.USS })},
		{size("rss", "RSS", 2, "the sum of what each process sees of it"), get(Bytes, func(c *Component) Figure { return c.RSS })},
		{size("swap", "SWAP", 4, "in swap"), get(Bytes, func(c *Component) Figure { return c.Swap })},
		{Column{Name: "processes", Title: "PROCS", Unit: Count, Width: 5, Rank: 2, Doc: "processes that map it"}, func(c *Component) Value { return value(Of(c.Processes), Count) }},
		{barColumn("share", "", "PSS next to the largest", 5), func(c *Component) Value { return drawn(o.drawing().Bar(c.PSS.N, largest, barWidth)) }},
		{Column{Name: "kind", Title: "KIND", Width: 7, Rank: 3, Doc: "file, heap (brk), anon, stack, shmem, …"}, func(c *Component) Value { return text(c.Kind) }},
		{Column{Name: "component", Title: "COMPONENT", Width: 36, Flex: true, Path: true, Doc: "file, or kind of memory"}, func(c *Component) Value { return text(c.Name) }},
	})
	t.Notes = s.Notes
	t.Empty = emptyFor(o.filter, "no process's mappings could be read")
	return t
}
