package render

import (
	"github.com/memtrace/memtrace/analyzer/report"
)

// addFreeWalk says how it is known which blocks of a process are gone, where free had no probe.
func addFreeWalk(p *page, f *report.FreeWalk) {
	if f == nil {
		return
	}
	items := []string{"no probe (--probes allocs)"}
	if f.SeenSinceNS != 0 {
		items[0] = "no probe until " + duration(f.SeenSinceNS)
	}
	switch {
	case f.Walks == 0:
		items = append(items, "the heap was not looked through yet")
	case f.Still:
		items = append(items, "what is live was read from the heap at "+duration(f.WalkedNS)+", exactly")
	default:
		items = append(items, "what is live was read from the heap at "+duration(f.WalkedNS)+", while the program ran")
	}
	if f.NewerCount > 0 {
		items = append(items, counted(f.NewerCount, "newer live block", "newer live blocks")+" ("+size(f.NewerBytes)+") may be gone")
	}
	if f.UnsureCount > 0 {
		items = append(items, counted(f.UnsureCount, "live block", "live blocks")+" ("+size(f.UnsureBytes)+") could not be told")
	}
	style := plain
	if n, _ := f.Doubtful(); n > 0 {
		style = warning
	}
	p.flow(style, "  free  ", items, "; ")
}
