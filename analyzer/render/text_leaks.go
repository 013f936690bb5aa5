package render

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addLeaks adds at most limit leaks, each with its reason, and counts the rest.
func addLeaks(p *page, r *report.Report, limit int) {
	if allUnprobed(r) {
		p.line(bold, "Leaks: not known, as no allocation is seen")
		return
	}
	if len(r.Leaks) == 0 {
		p.line(bold, noLeaks(r))
		return
	}
	p.line(bold, leaksTitle(r))
	names := make(map[int]string, len(r.Sites))
	for i := range r.Sites {
		names[r.Sites[i].ID] = siteName(&r.Sites[i])
	}
	for i := range r.Leaks[:min(limit, len(r.Leaks))] {
		addLeak(p, r, &r.Leaks[i], names)
	}
	if left := len(r.Leaks) - limit; left > 0 {
		p.line(dim, "  and "+counted(uint64(left), "more leak", "more leaks"))
	}
}

// noLeaks says what was looked at where no leak is to be shown.
func noLeaks(r *report.Report) string {
	checked, sum := 0, report.LeakSum{}
	for i := range r.Processes {
		if c := r.Processes[i].LeakCheck; c != nil {
			checked++
			sum.Count += c.Reachable.Count
			sum.Bytes += c.Reachable.Bytes
		}
	}
	where := ""
	if all := len(r.Processes); checked < all {
		where = fmt.Sprintf(" in %d of %d processes, which were checked", checked, all)
	}
	switch {
	case checked == 0:
		return "Leaks: no candidate"
	case r.Outcome != nil && r.Outcome.Suppressed.Count > 0:
		return "Leaks: none" + where + " but those suppressed; " + blocksOf(sum) + " reachable"
	}
	return "Leaks: none" + where + "; " + blocksOf(sum) + " reachable"
}

// blocksOf is a number of blocks with their size and a verb.
func blocksOf(s report.LeakSum) string {
	if s.Count == 1 {
		return "1 block of " + size(s.Bytes) + " is"
	}
	return count(s.Count) + " blocks of " + size(s.Bytes) + " are"
}

func leaksTitle(r *report.Report) string {
	for i := range r.Leaks {
		if report.IsVerdict(r.Leaks[i].Kind) {
			return "Leaks"
		}
	}
	if r.Basis == report.FirstTouchBasis {
		return "Leak candidates, from growth alone: who touched the memory first"
	}
	return "Leak candidates, from lifetimes alone"
}

func addLeak(p *page, r *report.Report, leak *report.Leak, names map[int]string) {
	one, many := "block", "blocks"
	if r.Basis == report.FirstTouchBasis {
		one, many = "page", "pages"
	}
	st := warning
	if report.IsVerdict(leak.Kind) {
		st = alarm
	}
	text := fmt.Sprintf("  %-8s %3.0f%%  %s in %s  #%d ", clean(leak.Kind), 100*leak.Confidence,
		size(leak.Bytes)+leakError(leak, size), counted(leak.Count, one, many), leak.Site)
	name := names[leak.Site]
	if room := p.width - columns(text); p.width > 0 {
		name = elide(name, max(room, 1))
	}
	p.line(st, text+name)
	if leak.Why != "" {
		p.prose(plain, "           ", leak.Why)
	}
	if facts := leakFacts(leak); len(facts) > 0 {
		p.flow(plain, "           ", facts, "; ")
	}
	for _, s := range leak.Samples {
		begin := "begin"
		if s.Count == 1 {
			begin = "begins"
		}
		p.prose(dim, "           ", fmt.Sprintf("%s %s with %s (%s)", count(s.Count), begin, s.Text, s.Address))
	}
}

// addCheck says how a process was checked for leaks, and what it had to bear.
func addCheck(p *page, c *report.LeakCheck) {
	if c == nil {
		return
	}
	when := map[string]string{
		"running": "while it ran, by " + counted(uint64(c.Scans), "scan", "scans"), "stopped": "while it stood still",
		"before_exit": "as it called exit, before exit handlers", "after_exit": "as it ended, after exit handlers",
		"before_exec": "as it called exec",
	}[c.When]
	roots := size(c.RootBytes) + " of roots"
	if c.Registers {
		roots += " and the registers"
	}
	items := []string{"checked " + when, roots + ", " + size(c.ReadBytes) + " read in all"}
	if c.UnsureBytes > 0 {
		items = append(items, size(c.UnsureBytes)+" of the roots lie among blocks: what was freed there, or an allocator's records, may hide leaks")
	}
	if c.UnreadBytes > 0 {
		items = append(items, size(c.UnreadBytes)+" could not be read")
	}
	p.flow(plain, "  Check ", items, "; ")
	p.flow(plain, "        ", reachable(c), ", ")
	pause := "never stopped"
	if c.PauseNS > 0 {
		pause = "stood still for " + duration(c.PauseNS)
	}
	p.flow(plain, "        ", []string{pause, "its memory map was held for " + duration(c.LongestHoldNS) + " at a time at most"}, "; ")
}

// reachable says how many blocks a check found reachable, and how many of them
// only from what kind of root.
func reachable(c *report.LeakCheck) []string {
	items := []string{blocksOf(c.Reachable) + " reachable"}
	by := &c.ReachableBy
	for _, kind := range []struct {
		sum  report.LeakSum
		from string
	}{
		{by.Globals, "from globals"}, {by.ThreadLocal, "only from thread-local memory"}, {by.Stacks, "only from stacks"},
		{by.Registers, "only from registers"}, {by.Shmem, "only from shared memory"},
		{by.AnonMmap, "only from other anonymous memory"},
		{by.HeapBeforeAttach, "only from heap that is in no known block"}, {by.Allocator, "only from the allocator's memory"},
	} {
		if kind.sum.Count > 0 {
			items = append(items, count(kind.sum.Count)+" ("+size(kind.sum.Bytes)+") "+kind.from)
		}
	}
	return items
}
