package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A Table is a heading and a line for each row, clean and without colour.
type Table struct {
	Head string
	Rows []string
}

// tableOf takes apart what a text table adds: its first line is the heading.
func tableOf(width int, add func(*page)) Table {
	p := &page{width: width}
	add(p)
	return Table{p.lines[0], p.lines[1:]}
}

// SiteTable is the table of call sites, at most width columns wide. trend, if not
// nil, draws the last column of figures, where there is room for it.
func SiteTable(r *report.Report, sites []report.Site, width int, trend func(*report.Site) string) Table {
	cols := siteColumns(r, width)
	if trend != nil {
		cols = append(cols, column{title: "TREND", keep: 1, cell: trend})
	}
	return tableOf(width, func(p *page) { addSiteRows(p, cols, sites) })
}

// GroupTable is the table of groups of call sites, by r.By.
func GroupTable(r *report.Report, groups []report.Group, width int) Table {
	return tableOf(width, func(p *page) { addGroupRows(p, r, groups) })
}

// RegionTable is the table of call sites that map memory.
func RegionTable(r *report.Report, regions []report.Region, width int) Table {
	return tableOf(width, func(p *page) { addRegionTable(p, r, regions) })
}

// RegionsInUse are the regions of r that have something mapped and are not an allocator's.
func RegionsInUse(r *report.Report) []report.Region { return regionsInUse(r) }

// MappingTable is the table of what a process has mapped.
func MappingTable(mappings []report.Mapping, width int) Table {
	return tableOf(width, func(p *page) { addMappingTable(p, mappings) })
}

// ResidentMappings are those of a process of which something is or was in memory.
func ResidentMappings(proc *report.Process) []report.Mapping {
	return slices.DeleteFunc(slices.Clone(proc.Mappings), isIdle)
}

// A NamedPool is what the pools of a name hold in one process.
type NamedPool = namedPool

// Pools are the pools of all processes, those that hold most first, and how many
// names more there are.
func Pools(r *report.Report) (all []NamedPool, more int) { return allPools(r) }

// PoolTable is the table of pools by name.
func PoolTable(r *report.Report, pools []NamedPool, width int) Table {
	return tableOf(width, func(p *page) { addPoolTable(p, r, pools) })
}

// ProcessTable is the table of processes.
func ProcessTable(r *report.Report, shown []report.Process, width int) Table {
	return tableOf(width, func(p *page) { addProcessRows(p, r, shown) })
}

// ProcessesByWeight are those of r, those that run and have most in memory first.
func ProcessesByWeight(r *report.Report) []report.Process { return byWeight(r.Processes) }

// LeakTable is the table of leaks and candidates: how much, how fast it grows, and where.
func LeakTable(r *report.Report, leaks []report.Leak, width int) Table {
	sites := r.SiteIndex()
	rows := make([]report.Site, len(leaks)) // for what they have in common with sites: a name and a place
	for i := range leaks {
		if s := sites[leaks[i].Site]; s != nil {
			rows[i] = *s
		}
		rows[i].ID = i
	}
	type site = report.Site
	cols := []column{
		{title: "SITE", keep: 9, cell: func(s *site) string { return fmt.Sprintf("#%d", leaks[s.ID].Site) }},
		{title: "KIND", keep: 10, cell: func(s *site) string { return clean(leaks[s.ID].Kind) }},
		{title: "BYTES", keep: 10, cell: func(s *site) string { return shortSize(leaks[s.ID].Bytes) }},
		{title: "COUNT", keep: 5, cell: func(s *site) string { return shortCount(leaks[s.ID].Count) }},
		{title: "GROWS", keep: 8, cell: func(s *site) string { return growth(&leaks[s.ID]) }},
		{title: "OLDEST", keep: 4, cell: func(s *site) string { return shortDuration(leaks[s.ID].OldestNS) }},
	}
	return tableOf(width, func(p *page) { addSiteRows(p, cols, rows) })
}

// growth is how fast the live bytes of a leak's site rise.
func growth(l *report.Leak) string {
	if l.GrowthPerSecond == 0 {
		return "-"
	}
	return shortSize(l.GrowthPerSecond) + "/s"
}

// textOf is what add writes, as lines of at most width columns, without colour.
func textOf(width int, add func(*page)) []string {
	p := &page{width: width}
	add(p)
	return p.lines
}

// ProcessLines describe one process of r.
func ProcessLines(r *report.Report, proc *report.Process, width int) []string {
	one := *r
	one.Processes = []report.Process{*proc}
	return textOf(width, func(p *page) { addProcesses(p, &one) })
}

// NoteLines say what a trace did not see, what was done about it, and its warnings.
func NoteLines(r *report.Report, width int) []string {
	return textOf(width, func(p *page) {
		addSampling(p, r.Sampling)
		addOverhead(p, r.Overhead)
		addPressure(p, r.Pressure)
		addLosses(p, r)
	})
}

// StackLines are all frames of a stack, innermost first.
func StackLines(s *report.Site, width int) []string {
	return textOf(width, func(p *page) { addStack(p, s, -1) })
}

// LeakLines describe a leak of the site s of r.
func LeakLines(r *report.Report, l *report.Leak, s *report.Site, width int) []string {
	return textOf(width, func(p *page) { addLeak(p, r, l, map[int]string{s.ID: siteName(s)}) })
}

// SiteName is a site's function, or where it is if that has no name.
func SiteName(s *report.Site) string { return siteName(s) }

// Prose is a sentence in lines of at most width columns, the further ones indented.
func Prose(sentence string, width int) []string {
	return textOf(width, func(p *page) { p.prose(plain, "", sentence) })
}

// Size formats bytes: "0 B", "1.23 KiB".
func Size(n uint64) string { return size(n) }

// Duration formats nanoseconds: "340 ns", "2m03s".
func Duration(ns uint64) string { return duration(ns) }

// Counted is a number with its noun: "1 block", "1,234 blocks".
func Counted(n uint64, one, many string) string { return counted(n, one, many) }

// Percent is a part of a whole: "<1%", "23%"; "-" of nothing.
func Percent(part, whole uint64) string { return percent(part, whole) }

// Rest counts the sites that a Report lists no more and what they hold; "" where there are none.
func Rest(r *report.Report) string {
	lines := textOf(0, func(p *page) { addOmitted(p, r, r.Sites, Options{}) })
	return strings.Join(lines, "")
}
