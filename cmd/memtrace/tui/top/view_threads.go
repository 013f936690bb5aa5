package top

import "fmt"

func threadTable(s *Snapshot, o options) *Table {
	threads := named(o.filter, s.Threads, func(t *Thread) (string, int) { return t.Name, t.TID })
	get := func(u Unit, f func(*Thread) Figure) func(*Thread) Value {
		return func(t *Thread) Value { return value(f(t), u) }
	}
	t := tableOf(threads, func(t *Thread) ID { return ID{PID: t.TID} }, []column[Thread]{
		{Column{Name: "tid", Title: "TID", Unit: Plain, Width: 7, Doc: "thread ID"}, func(t *Thread) Value { return value(Of(t.TID), Plain) }},
		{Column{Name: "state", Title: "S", Width: 1, Doc: "R running, S sleeping, D waiting for I/O, T stopped"}, func(t *Thread) Value { return text(letter(t.State)) }},
		{Column{Name: "priority", Title: "PR", Unit: Plain, Width: 3, Rank: 6, Doc: "the scheduler's priority"}, get(Plain, func(t *Thread) Figure { return t.Priority })},
		{Column{Name: "nice", Title: "NI", Unit: Plain, Width: 3, Rank: 6, Doc: "nice value"}, get(Plain, func(t *Thread) Figure { return t.Nice })},
		{Column{Name: "cpu", Title: "%CPU", Unit: Percent, Width: 5, Doc: "of one core, since the last refresh (--once: since it started)"}, get(Percent, func(t *Thread) Figure { return t.CPU })},
		{Column{Name: "time", Title: "TIME+", Unit: Clock, Width: 8, Rank: 3, Doc: "CPU time, user and system"}, get(Clock, func(t *Thread) Figure { return t.CPUTime })},
		{Column{Name: "minor", Title: "MINFLT", Unit: Count, Width: 6, Doc: "minor page faults since it started"}, get(Count, func(t *Thread) Figure { return t.MinorFaults })},
		{Column{Name: "major", Title: "MAJFLT", Unit: Count, Width: 6, Rank: 1, Doc: "major page faults (read from disk or swap) since it started"}, get(Count, func(t *Thread) Figure { return t.MajorFaults })},
		{Column{Name: "processor", Title: "CPU", Unit: Plain, Width: 3, Rank: 4, Doc: "the CPU it last ran on"}, get(Plain, func(t *Thread) Figure { return t.Processor })},
		{Column{Name: "node", Title: "NODE", Unit: Plain, Width: 4, Rank: 4, Doc: "that CPU's NUMA node"}, get(Plain, func(t *Thread) Figure { return t.Node })},
		{Column{Name: "stack_size", Title: "STKSZ", Unit: Bytes, Width: 6, Rank: 2, Doc: "size of the mapping that its stack pointer is in"}, get(Bytes, func(t *Thread) Figure { return t.StackSize })},
		{Column{Name: "stack", Title: "STACK", Width: 14, Rank: 5, Doc: "where that mapping starts"}, func(t *Thread) Value { return stackPlace(t) }},
		{Column{Name: "name", Title: "NAME", Width: 12, Flex: true, Doc: "the thread's name"}, func(t *Thread) Value { return text(t.Name) }},
	})
	t.Notes = []string{ofProcess(&s.Of) + "; threads share its memory, so none has a PSS of its own"}
	t.Empty = emptyForOne(&s.Of, o.filter)
	return t
}

func stackPlace(t *Thread) Value {
	if !t.StackPlace.Known() {
		return Value{Figure: t.StackPlace, Unit: Text}
	}
	s := text(fmt.Sprintf("%012x", uint64(t.StackPlace.N)))
	if t.StackName != "" {
		s.Text = t.StackName
	}
	return s
}

func ofProcess(of *Subject) string {
	if of.PID == 0 {
		return "no process chosen"
	}
	return fmt.Sprintf("process %d %s", of.PID, of.Name)
}

func emptyForOne(of *Subject, f Filter) string {
	switch {
	case of.Problem != "":
		return of.Problem
	case of.PID == 0:
		return "choose a process in view 1 first"
	}
	return emptyFor(f, "nothing there")
}
