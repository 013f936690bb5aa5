package render

import "github.com/memtrace/memtrace/analyzer/report"

// addLosses says what the trace could not see and what that does to the
// figures. It always says something: silence would look like completeness.
func addLosses(p *page, r *report.Report) {
	e := &r.Events
	if r.Tracer.Attach == report.NotTraced {
		p.line(plain, "Losses: none, as nothing was traced")
		addNotes(p, r)
		return
	}
	if e.Lost == 0 {
		p.line(plain, "Losses: nothing lost")
	} else {
		addLost(p, e)
	}
	for _, note := range lossNotes(r) {
		p.prose(plain, "  ", note)
	}
	addNotes(p, r)
}

func addNotes(p *page, r *report.Report) {
	for _, text := range r.Warnings {
		p.prose(warning, "Warning: ", text)
	}
	for _, text := range r.Notes {
		p.prose(plain, "Note: ", text)
	}
}

func addLost(p *page, e *report.Events) {
	causes := []struct {
		n    uint64
		text string
	}{
		{e.LostBy.RingFull, "the ring buffer was full"},
		{e.LostBy.ThreadState, "the kernel had no room for a thread's state"},
		{e.LostBy.ReadFault, "the target's memory could not be read"},
		{e.LostBy.Missed, "the kernel skipped the probe"},
		{e.LostBy.Mispredicted, "malloc returned another block than the thread's cache had next: up to 255 calls of the thread before are in doubt"},
		{e.LostBy.Truncated, "the record was malformed"},
		{e.LostBy.Unprobed, "a process had no probes for a while, or a function of its allocator has none"},
	}
	p.prose(alarm, "Losses: ", counted(e.Lost, "event", "events")+" lost of "+count(e.Lost+seen(e))+
		" ("+percent(e.Lost, e.Lost+seen(e))+")")
	for _, cause := range causes {
		if cause.n > 0 {
			p.prose(plain, "  ", count(cause.n)+": "+cause.text)
		}
	}
	p.prose(plain, "  ", "A lost free leaves its block live, a lost allocation hides one: "+
		"live bytes may be off either way by as many blocks, and leak candidates deserve doubt.")
}

// seen is the number of events that did arrive.
func seen(e *report.Events) uint64 {
	return e.Alloc + e.Free + e.Realloc + e.Mmap + e.Munmap + e.Mremap + e.FaultMinor + e.FaultMajor + e.Failed
}

// lossNotes explain what was not lost but is not in the figures either.
func lossNotes(r *report.Report) []string {
	e := &r.Events
	var notes []string
	add := func(n uint64, one, many string) {
		if n > 0 {
			notes = append(notes, counted(n, one, many))
		}
	}
	add(e.UnmatchedFree, "free of a block "+unseenOrigin(r)+"; it changes no figure",
		"frees of blocks "+unseenOrigin(r)+"; they change no figure")
	add(e.Overwritten, "block was handed out again before its free was seen; it counts as freed",
		"blocks were handed out again before their frees were seen; they count as freed")
	add(e.Repaired, "block was freed unseen, as the allocator's own records tell; it counts as freed",
		"blocks were freed unseen, as the allocator's own records tell; they count as freed")
	add(e.Failed, "allocation failed; it counts nowhere", "allocations failed; they count nowhere")
	add(e.LostBy.StackFull, "event came without its stack (ring buffer full); its site is [no stack]",
		"events came without their stacks (ring buffer full); their site is [no stack]")
	add(e.LostBy.MissedFaults, "page fault, of whichever process, was left out by the kernel; faults may be one short",
		"page faults, of whichever process, were left out by the kernel; faults may be short by so many at most")
	add(r.Stacks.Broken, "allocation's stack breaks off before its end (code whose table was not there yet, or has none)",
		"allocations' stacks break off before their ends (code whose table was not there yet, or has none)")
	const leaves = "(exception, longjmp, end of the thread, switch of stacks)"
	add(e.LostBy.Abandoned, "allocator call was not seen to return "+leaves+"; a block of it counts nowhere",
		"allocator calls were not seen to return "+leaves+"; blocks of theirs count nowhere")
	return notes
}

// unseenOrigin says where the blocks of unmatched frees came from: before the
// attach if any process was attached to while it ran.
func unseenOrigin(r *report.Report) string {
	for i := range r.Processes {
		if r.Processes[i].Attached {
			return "from before the attach"
		}
	}
	return "whose allocation was not seen"
}
