package top

import "github.com/memtrace/memtrace/cmd/memtrace/tui"

func groupTable(s *Snapshot, o options) *Table {
	groups := named(o.filter, s.Groups, func(g *Group) (string, int) { return g.Path + " " + g.Container, 0 })
	get := func(u Unit, f func(*Group) Figure) func(*Group) Value {
		return func(g *Group) Value { return value(f(g), u) }
	}
	t := tableOf(groups, func(g *Group) ID { return ID{Name: g.Path} }, []column[Group]{
		{Column{Name: "processes", Title: "PROC", Unit: Count, Width: 4, Rank: 3, Doc: "processes in it and below it"}, get(Count, func(g *Group) Figure { return g.Processes })},
		{size("current", "USED", 0, "memory charged to it (memory.current)"), get(Bytes, func(g *Group) Figure { return g.Current })},
		{size("working_set", "WORKNG", 2, "USED less inactive file pages, as Kubernetes counts"), get(Bytes, func(g *Group) Figure { return g.Working })},
		{size("max", "MAX", 1, "limit (memory.max): - is none; the lowest of its own and its parents'"), get(Bytes, func(g *Group) Figure { return g.Max })},
		{size("high", "HIGH", 9, "limit from which on it is throttled (memory.high)"), get(Bytes, func(g *Group) Figure { return g.High })},
		{barColumn("fill", "USED OF MAX", "USED of the limit", 7), func(g *Group) Value { return drawn(fillBar(g, o.drawing())) }},
		{size("uss", "USS", 1, "what would be freed if all of its processes ended: the sum of their USS, or more (>), up to PSS, where they share pages among themselves"), func(g *Group) Value { return lowerBound(g.USS, g.UnknownIn > 0 || g.Shares && g.Processes.N > 1) }},
		{size("pss", "PSS", 4, "sum of its processes' PSS"), func(g *Group) Value { return lowerBound(g.PSS, g.UnknownIn > 0) }},
		{size("anon", "ANON", 5, "anonymous memory (memory.stat)"), get(Bytes, func(g *Group) Figure { return g.Anon })},
		{size("file", "FILE", 5, "page cache (memory.stat)"), get(Bytes, func(g *Group) Figure { return g.File })},
		{size("kernel", "KERNEL", 8, "kernel memory charged to it"), get(Bytes, func(g *Group) Figure { return g.Kernel })},
		{size("swap", "SWAP", 6, "swap charged to it"), get(Bytes, func(g *Group) Figure { return g.Swap })},
		{size("peak", "PEAK", 8, "the most that was ever charged (memory.peak, Linux 5.19)"), get(Bytes, func(g *Group) Figure { return g.Peak })},
		{Column{Name: "psi_some", Title: "SOME%", Unit: Percent, Width: 5, Rank: 4, Doc: "share of the last 10 s in which some task waited for memory (PSI)"}, get(Percent, func(g *Group) Figure { return g.Some })},
		{Column{Name: "psi_full", Title: "FULL%", Unit: Percent, Width: 5, Rank: 7, Doc: "share in which all of them did"}, get(Percent, func(g *Group) Figure { return g.Full })},
		{Column{Name: "oom", Title: "OOM", Unit: Count, Width: 4, Rank: 6, Doc: "times its limit was hit and nothing could be reclaimed (memory.events)"}, get(Count, func(g *Group) Figure { return g.OOM })},
		{Column{Name: "oom_kills", Title: "KILL", Unit: Count, Width: 4, Rank: 3, Doc: "processes the OOM killer took in it"}, func(g *Group) Value {
			v := value(g.Killed, Count)
			v.Strong = g.Killed.N > 0
			return v
		}},
		{Column{Name: "container", Title: "CONTAINER", Width: 12, Rank: 5, Doc: "the container's ID or the unit, where the path tells"}, func(g *Group) Value { return text(g.Container) }},
		{Column{Name: "cgroup", Title: "CGROUP", Width: 24, Flex: true, Path: true, Doc: "path below the cgroup file system"}, func(g *Group) Value { return text(g.Path) }},
	})
	t.Notes = s.Notes
	t.Empty = emptyFor(o.filter, "no cgroup with a memory controller could be read")
	return t
}

func lowerBound(f Figure, more bool) Value {
	v := value(f, Bytes)
	v.AtLeast = more && f.Known()
	return v
}

func fillBar(g *Group, chars *tui.Charset) string {
	if !g.Max.Known() || !g.Current.Known() {
		return ""
	}
	return chars.Bar(g.Current.N, g.Max.N, barWidth)
}
