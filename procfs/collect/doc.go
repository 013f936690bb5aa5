// Package collect reads the memory of all processes of a machine, again and
// again, at little more than what the kernel takes for it.
//
//	c, err := collect.Open(collect.Options{})
//	pass, err := c.Collect(collect.All)
//	for _, p := range pass.Processes {       // by PID
//		pss, outcome := p.PSS()              // use pss where outcome.Ok()
//	}
//
// A Collector holds the directory of each process open, so that a figure never
// comes from another process that was given the same PID; a process is known
// by its Identity, PID and start time. Where descriptors are short, the
// directories of some are opened anew in each pass.
//
// Each pass says which Fields it wants; files that no field needs are not
// opened. Every field has an Outcome: known, no permission, gone, not on this
// kernel. A figure that is not known is not zero: ask first.
//
// Memory walks the target's page tables and holds its mmap lock meanwhile. A
// Budget bounds that: targets that have not changed are left out, large ones
// are walked seldom, the rest is spread over passes. Process.MemoryAt and
// Behind say how old a figure is, Pass.Walks what the walks cost. A walk is
// predicted by a Meter, which others that walk page tables may use as well.
//
// All cores read. In the steady state nothing is allocated per process, apart
// from those that are new, and from what is refreshed every RefreshEvery.
package collect
