package top

import "slices"

// program is all processes of one program.
type program struct {
	name                       string
	processes, threads         int64
	rss, pss, uss, swap, delta sum
	cpu                        sum
	shared                     bool // some share an address space
	users                      []string
}

// programsOf sums processes up by program. Processes that share one address
// space count once, as all of them report the same pages.
func programsOf(processes []Process) []program {
	byName := make(map[string]int)
	seen := make(map[uint64]bool)
	var out []program
	for i := range processes {
		p := &processes[i]
		if p.Kernel {
			continue
		}
		at, ok := byName[p.Program]
		if !ok {
			at = len(out)
			byName[p.Program] = at
			out = append(out, program{name: p.Program})
		}
		out[at].add(p, p.Space != 0 && seen[p.Space])
		if p.Space != 0 {
			seen[p.Space] = true
		}
	}
	return out
}

func (g *program) add(p *Process, twin bool) {
	g.processes++
	g.threads += max(p.Threads.N, 0)
	g.cpu.add(p.CPU)
	if !slices.Contains(g.users, p.User) {
		g.users = append(g.users, p.User)
	}
	if twin {
		g.shared = true
		return
	}
	g.rss.add(p.RSS)
	g.pss.add(p.withinRSS(p.PSS))
	g.uss.add(p.withinRSS(p.USS))
	g.swap.add(p.Swap)
	g.delta.add(p.DeltaPSS)
}

func programTable(s *Snapshot, o options) *Table {
	total := s.Machine.Total
	programs := programsOf(o.filter.processes(s.Processes))
	largest := int64(0)
	for i := range programs {
		largest = max(largest, programs[i].pss.total.N)
	}
	get := func(u Unit, f func(*program) *sum) func(*program) Value {
		return func(g *program) Value { return f(g).value(u) }
	}
	t := tableOf(programs, func(g *program) ID { return ID{Name: g.name} }, []column[program]{
		{Column{Name: "processes", Title: "PROCS", Unit: Count, Width: 5, Doc: "processes of the program"},
			func(g *program) Value { return value(Of(g.processes), Count) }},
		{Column{Name: "threads", Title: "THR", Unit: Count, Width: 5, Rank: 5, Doc: "threads of all of them"},
			func(g *program) Value { return value(Of(g.threads), Count) }},
		{size("rss", "RSS", 3, "sum of RSS: pages that they share count more than once"), get(Bytes, func(g *program) *sum { return &g.rss })},
		{size("pss", "PSS", 0, "sum of PSS: what the program costs the machine"), get(Bytes, func(g *program) *sum { return &g.pss })},
		{size("uss", "USS", 1, "sum of USS, a lower bound of what ending all of them would free"), get(Bytes, func(g *program) *sum { return &g.uss })},
		{size("swap", "SWAP", 4, "sum of swap"), get(Bytes, func(g *program) *sum { return &g.swap })},
		{Column{Name: "mem", Title: "%MEM", Unit: Percent, Width: 5, Rank: 2, Doc: "PSS of the machine's memory"},
			func(g *program) Value { v := g.pss.value(Percent); v.Figure = share(v.Figure, total); return v }},
		{Column{Name: "cpu", Title: "%CPU", Unit: Percent, Width: 5, Rank: 4, Doc: "of one core, all of them together"}, get(Percent, func(g *program) *sum { return &g.cpu })},
		{Column{Name: "delta", Title: "ΔPSS", Unit: Change, Width: 6, Rank: 2, Live: true, Doc: "change of PSS since the last refresh"},
			func(g *program) Value { return strongFrom(o.threshold, g.delta.value(Change).Figure) }},
		{barColumn("share", "", "PSS next to the largest program's", 3),
			func(g *program) Value { return drawn(o.drawing().Bar(g.pss.total.N, largest, barWidth)) }},
		{Column{Name: "user", Title: "USER", Width: 8, Rank: 6, Doc: "user, or how many users"},
			func(g *program) Value { return text(oneOf(g.users)) }},
		{Column{Name: "program", Title: "PROGRAM", Width: 12, Flex: true, Doc: "program file's name; * where processes share one address space, counted once"},
			func(g *program) Value { return text(starred(g.name, g.shared)) }},
	})
	t.Empty = emptyFor(o.filter, "no processes")
	return t
}

func starred(name string, star bool) string {
	if star {
		return name + " *"
	}
	return name
}

func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return value(Of(len(names)), Count).String() + " users"
}
