package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addProcesses adds the header block of each process.
func addProcesses(p *page, r *report.Report) {
	if len(r.Processes) == 0 {
		p.line(bold, "no process traced yet after "+duration(r.WindowNS))
	}
	for i := range r.Processes {
		proc := &r.Processes[i]
		p.flow(bold, "", headerItems(r, proc), " ")
		if len(proc.Allocators) > 0 {
			p.flow(dim, "  via   ", cleanAll(proc.Allocators), ", ")
		}
		addUsage(p, proc)
		switch {
		case proc.HeapWalk != nil:
			addWalk(p, proc)
		case proc.FirstTouch != nil:
			addTouched(p, proc)
		case proc.Unprobed && proc.GoHeap != nil && proc.GoHeap.Problem == "":
		case proc.Unprobed:
			p.flow(plain, "  Heap  ", []string{"not seen:", "it has no allocator", "that can be probed"}, " ")
		default:
			addHeap(p, r, proc)
			addPools(p, proc)
		}
		addGoHeap(p, proc.GoHeap)
		addFreeWalk(p, proc.FreeWalk)
		addProcessLoss(p, proc.Loss)
		addCheck(p, proc.LeakCheck)
	}
}

func headerItems(r *report.Report, proc *report.Process) []string {
	comm := clean(proc.Comm)
	if comm == "" {
		comm = "?"
	}
	if r.Tracer.Attach == report.NotTraced {
		return []string{fmt.Sprintf("%s (pid %s) ", comm, pids(proc)), "not traced: its heap was read from outside"}
	}
	items := []string{fmt.Sprintf("%s (pid %s) ", comm, pids(proc)), "traced " + duration(traced(r, proc)) + " "}
	if proc.Children > 0 {
		items[0] = fmt.Sprintf("%s more children of %s (pid %d) ", count(uint64(proc.Children)), comm, proc.PID)
	}
	switch {
	case proc.ExitCode != nil:
		items = append(items, fmt.Sprintf("exited with %d ", *proc.ExitCode))
	case proc.Exited:
		items = append(items, "exited ")
	}
	return append(items, mechanisms(r.Tracer)...)
}

// traced is for how long a process was traced; of what sums up children, how long the trace is.
func traced(r *report.Report, proc *report.Process) uint64 { return cmp.Or(proc.TracedNS, r.WindowNS) }

// pids are the process's IDs: "4711", or "4711, 7 inside" where it has another
// in a PID namespace of its own.
func pids(proc *report.Process) string {
	text := fmt.Sprint(proc.PID)
	for _, pid := range proc.InnerPIDs {
		text += fmt.Sprintf(", %d inside", pid)
	}
	return text
}

// mechanisms says how the figures were had: "uprobe session, faults kprobe, stacks fp".
func mechanisms(t report.TracerInfo) []string {
	var out []string
	add := func(what, how string) {
		if how != "" {
			out = append(out, what+strings.ReplaceAll(clean(how), "_", " "))
		}
	}
	add("", t.Attach)
	add("faults ", t.Faults)
	add("stacks ", t.Unwind)
	for i := range out[:max(len(out)-1, 0)] {
		out[i] += ","
	}
	return out
}

// addUsage adds the RSS line: how much, and where it is.
func addUsage(p *page, proc *report.Process) {
	u := proc.Usage
	if u.SampledNS == 0 {
		p.line(plain, "  RSS   "+unread("read", proc))
		return
	}
	p.flow(plain, "  RSS   ", []string{size(u.RSS), "PSS " + size(u.PSS), "USS " + size(u.USS), "swap " + size(u.Swap)}, "  ")
	p.flow(plain, "        ", rssItems(proc), ", ")
	addRuntime(p, proc.Runtime)
}

// unread says why a figure that is read from time to time is not there.
func unread(what string, proc *report.Process) string {
	if proc.Exited {
		return "not " + what + ": it ended before a sample was taken"
	}
	return "not " + what + " yet"
}

const otherAnonymous = "other anonymous"

// rssItems names the parts of RSS that are not empty, largest concern first.
func rssItems(proc *report.Process) []string {
	by, rss := proc.RSSBy, proc.Usage.RSS
	parts := []struct {
		name  string
		bytes uint64
	}{
		{"live heap", by.HeapLive},
		{"heap overhead", by.HeapOverhead},
		{"heap from before attach", by.HeapBeforeAttach},
		{otherAnonymous, by.AnonMmap},
		{"file", by.File},
		{"stack", by.Stack},
		{"shmem", by.Shmem},
		{"other", by.Other},
	}
	if sum := by.Sum(); sum < rss {
		parts = append(parts, struct {
			name  string
			bytes uint64
		}{"not accounted for", rss - sum})
	}
	var items []string
	for _, part := range parts {
		if part.bytes > 0 {
			items = append(items, fmt.Sprintf("%s %s (%s)", part.name, size(part.bytes), percent(part.bytes, rss)))
		}
		if traced := proc.AnonMmap.Traced; part.bytes > 0 && traced > 0 && part.name == otherAnonymous {
			items[len(items)-1] += " of which " + size(traced) + " was seen being mapped"
		}
	}
	return items
}

// addTouched adds how much of RSS the sites explain.
func addTouched(p *page, proc *report.Process) {
	f := proc.FirstTouch
	if proc.Children > 0 {
		p.flow(plain, "  Pages ", []string{
			counted(f.ChildTouches, "touch", "touches"),
			"by children that are not listed one by one: by what is not kept",
		}, " ")
		return
	}
	unexplained := size(uint64(max(f.UnexplainedBytes, 0)))
	p.flow(plain, "  Pages ", []string{
		size(f.ExplainedBytes) + " of RSS first touched by the sites below",
		size(f.BeforeBytes) + " there before the trace",
		unexplained + " unexplained",
	}, ", ")
	var items []string
	for _, part := range []struct {
		n    uint64
		what string
	}{{f.SwapIns, "swapped in"}, {f.Copies, "copied at a write"}, {f.PagesLost, "not kept, as --memory is used up"}} {
		if part.n > 0 {
			items = append(items, counted(part.n, "page", "pages")+" "+part.what)
		}
	}
	if len(items) > 0 {
		p.flow(plain, "        ", items, ", ")
	}
}

// addHeap adds what the traced heap holds and how busy the allocator is.
func addHeap(p *page, r *report.Report, proc *report.Process) {
	h := proc.Heap
	p.flow(plain, "  Heap  ", []string{
		size(h.LiveBytes) + plusMinus(h.Estimate.LiveBytes(), size) + " live in " + counted(h.LiveCount, "block", "blocks") + plusMinus(h.Estimate.LiveCount(), count) + ofSamples(h.Estimate.LiveOf()),
		peak(proc),
	}, ", ")
	p.flow(plain, "        ", []string{
		withRate("allocated", h.AllocCount, traced(r, proc)) + ", " + size(h.AllocBytes) + plusMinus(h.Estimate.AllocBytes(), size),
		withRate("freed", h.FreeCount, traced(r, proc)),
		temporary(proc),
	}, "; ")
	if h.CorrelatedNS == 0 {
		p.line(plain, "        resident: "+unread("measured", proc))
		return
	}
	p.flow(plain, "        ", []string{
		"resident " + size(h.ResidentBytes),
		"untouched " + size(h.UntouchedBytes),
		"swapped " + size(h.SwappedBytes),
	}, ", ")
}

// peak says when most was live: at the looks at the heap alone, where frees are not seen.
func peak(proc *report.Process) string {
	text := size(proc.Heap.PeakBytes) + " at " + duration(proc.Heap.PeakAtNS)
	if proc.FreeWalk != nil {
		return "peak when read " + text
	}
	return "peak " + text
}

func temporary(proc *report.Process) string {
	if proc.FreeWalk != nil {
		return "temporary not known"
	}
	return "temporary " + percent(proc.Heap.TemporaryCount, proc.Heap.AllocCount)
}

func withRate(what string, n, windowNS uint64) string {
	s := what + " " + counted(n, "block", "blocks")
	if per := rate(n, windowNS); per != "" {
		s += " (" + per + ")"
	}
	return s
}

func cleanAll(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = clean(name)
	}
	return out
}
