package top

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// sharingTable shows how much of each process is its own, and what sharing
// saves.
func sharingTable(s *Snapshot, o options) *Table {
	processes := o.filter.processes(userProcesses(s.Processes))
	get := func(u Unit, f func(*Process) Figure) func(*Process) Value {
		return func(p *Process) Value { return value(f(p), u) }
	}
	t := tableOf(processes, (*Process).id, []column[Process]{
		pidColumn(),
		{Column{Name: "user", Title: "USER", Width: 8, Rank: 4, Doc: "user the process runs as"}, func(p *Process) Value { return text(p.User) }},
		{size("rss", "RSS", 1, "resident memory, shared pages counted whole, when PSS was read"), get(Bytes, func(p *Process) Figure { return p.RSSThen })},
		{size("pss", "PSS", 0, "resident memory, shared pages divided"), get(Bytes, func(p *Process) Figure { return p.PSS })},
		{size("uss", "USS", 1, "resident memory that is its own alone"), get(Bytes, func(p *Process) Figure { return p.USS })},
		{size("shared", "SHARED", 2, "RSS less USS: pages that others map, too"), get(Bytes, sharedPart)},
		{size("saved", "SAVED", 2, "RSS less PSS: what the process does not cost because others share its pages"), get(Bytes, savedPart)},
		{Column{Name: "efficiency", Title: "SAVED%", Unit: Percent, Width: 6, Rank: 0, Doc: "SAVED of RSS: 0 shares nothing"},
			func(p *Process) Value { return value(share(savedPart(p), p.RSSThen), Percent) }},
		{barColumn("parts", "OWN|COST|SAVED", "RSS: its own (full), its part of what is shared (half), what sharing saves (light)", 3),
			func(p *Process) Value { return drawn(sharingBar(p, o.drawing())) }},
		commandColumn(o),
	})
	t.Notes = []string{sharingNote(processes)}
	t.Empty = emptyFor(o.filter, "no processes")
	return t
}

func userProcesses(all []Process) []Process {
	some := make([]Process, 0, len(all))
	for i := range all {
		if !all[i].Kernel {
			some = append(some, all[i])
		}
	}
	return some
}

// All from one walk: RSS of now less a PSS of some seconds ago would count
// growth as sharing.
func savedPart(p *Process) Figure  { return p.RSSThen.minus(p.PSS) }
func sharedPart(p *Process) Figure { return p.RSSThen.minus(p.USS) }

func sharingBar(p *Process, chars *tui.Charset) string {
	if !p.PSS.Known() || !p.USS.Known() || !p.RSSThen.Known() {
		return ""
	}
	parts := []int64{p.USS.N, max(p.PSS.N-p.USS.N, 0), max(p.RSSThen.N-p.PSS.N, 0)}
	return chars.Stacked(parts, max(p.RSSThen.N, p.PSS.N), barWidth)
}

// sharingNote sums up over the processes whose figures are all known.
func sharingNote(processes []Process) string {
	var rss, pss, uss, left int64
	seen := make(map[uint64]bool)
	for i := range processes {
		p := &processes[i]
		switch {
		case p.RSSThen.State == None || p.Space != 0 && seen[p.Space]:
		case !p.RSSThen.Known() || !p.PSS.Known() || !p.USS.Known():
			left++
		default:
			rss, pss, uss = rss+p.RSSThen.N, pss+p.PSS.N, uss+p.USS.N
			seen[p.Space] = p.Space != 0
		}
	}
	short := func(n int64) string { return render.ShortSize(uint64(max(n, 0))) }
	note := fmt.Sprintf("RSS %s = own %s + part of shared %s + saved by sharing %s",
		short(rss), short(uss), short(pss-uss), short(rss-pss))
	if left > 0 {
		note += fmt.Sprintf("; processes that could not be read: %d", left)
	}
	return note
}
