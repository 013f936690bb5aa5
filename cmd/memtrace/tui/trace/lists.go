package trace

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// list is the rows of a view.
type list struct {
	keys  []string // tell rows apart from one Report to the next
	table func(from, to int) render.Table
	open  func(i int)                                // what Enter does on a row; nil: nothing
	stack func(i int) (title string, s *report.Site) // of a row; nil: rows have none
	empty string                                     // why there are no rows
	rest  string                                     // what is not listed; "" where all is
}

// orders are the words of --sort, in the order of key s.
var orders = []string{"live", "growth", "resident", "count", "alloc", "peak", "temp", "faults", "age"}

// trendFrom is the width from which on the sites' table shows what they held before.
const trendFrom, trendWidth = 120, 12

func (m *Screen) rowsOf(v view) list {
	switch v {
	case leaksView:
		return m.leakList()
	case mappedView:
		return m.mappedList()
	case poolsView:
		return m.poolList()
	case processesView:
		return m.processList()
	case threadsView:
		return m.threadList()
	case notesView:
		return list{}
	}
	if m.by != report.BySite && m.group == "" {
		return m.groupList()
	}
	return m.siteList()
}

// keysOf names n rows.
func keysOf(n int, key func(i int) string) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
}

// none says why a table is empty.
func (m *Screen) none(why string) string {
	if m.filters[m.view] != "" {
		return "No row matches the filter (Esc clears it)."
	}
	return why
}

// chosenSites are those that the filter and the group leave, in the order that was asked for.
func (m *Screen) chosenSites() []report.Site {
	filter := m.filters[sitesView]
	sites := slices.DeleteFunc(slices.Clone(m.shown.Sites), func(s report.Site) bool {
		return m.group != "" && s.GroupKey(m.by) != m.group || !matchesStack(filter, s.Function, s.Stack)
	})
	(&report.Report{Sites: sites}).Sort(m.order)
	if m.reverse {
		slices.Reverse(sites)
	}
	return sites
}

func (m *Screen) siteList() list {
	sites := m.chosenSites()
	return list{
		keys: keysOf(len(sites), func(i int) string { return "#" + strconv.Itoa(sites[i].ID) }),
		table: func(from, to int) render.Table {
			return render.SiteTable(m.shown, sites[from:to], m.width, m.trend())
		},
		open:  func(i int) { m.openSite(sites[i].ID) },
		stack: func(i int) (string, *report.Site) { return stackTitle(&sites[i]), &sites[i] },
		empty: m.none(m.noSites()),
		rest:  render.Rest(m.shown),
	}
}

func stackTitle(s *report.Site) string {
	return "#" + strconv.Itoa(s.ID) + " is called by"
}

func (m *Screen) noSites() string {
	if unseen(m.shown) {
		return "No allocation is seen: the program has no allocator that can be probed. Key m shows what it has mapped."
	}
	return "No allocation seen yet."
}

// trend draws what a site held at the Reports before; nil where there is no room for it.
func (m *Screen) trend() func(*report.Site) string {
	if m.width < trendFrom {
		return nil
	}
	return func(s *report.Site) string { return m.history.sites[s.ID].line(m.chars, trendWidth) }
}

func (m *Screen) groupList() list {
	r := &report.Report{Sites: m.chosenSites(), Sampling: m.shown.Sampling}
	r.GroupBy(m.by, m.order, 0)
	if m.reverse {
		slices.Reverse(r.Groups)
	}
	return list{
		keys:  keysOf(len(r.Groups), func(i int) string { return r.Groups[i].Key }),
		table: func(from, to int) render.Table { return render.GroupTable(r, r.Groups[from:to], m.width) },
		open:  func(i int) { m.openGroup(r.Groups[i].Key) },
		empty: m.none(m.noSites()),
		rest:  render.Rest(m.shown),
	}
}

func (m *Screen) leakList() list {
	r, sites := m.shown, m.shown.SiteIndex()
	leaks := slices.DeleteFunc(slices.Clone(r.Leaks), func(l report.Leak) bool {
		s := sites[l.Site]
		return m.filters[leaksView] != "" && (s == nil || !matchesStack(m.filters[leaksView], s.Function, s.Stack))
	})
	return list{
		keys:  keysOf(len(leaks), func(i int) string { return fmt.Sprintf("%s#%d", leaks[i].Kind, leaks[i].Site) }),
		table: func(from, to int) render.Table { return render.LeakTable(r, leaks[from:to], m.width) },
		open:  func(i int) { m.openSite(leaks[i].Site) },
		stack: func(i int) (string, *report.Site) {
			s := sites[leaks[i].Site]
			if s == nil {
				return "", nil
			}
			return stackTitle(s), s
		},
		empty: m.none("No site grows or holds on to old blocks so far. This is judged by lifetimes alone; with --leaks the memory is searched at the end of the trace."),
	}
}

// mappedList are the call sites that map memory, or the mappings themselves where no allocation is seen.
func (m *Screen) mappedList() list {
	if unseen(m.shown) {
		return m.mappingList()
	}
	filter := m.filters[mappedView]
	regions := slices.DeleteFunc(render.RegionsInUse(m.shown), func(g report.Region) bool { return !matchesStack(filter, g.Function, g.Stack) })
	return list{
		keys:  keysOf(len(regions), func(i int) string { return strconv.Itoa(regions[i].ID) }),
		table: func(from, to int) render.Table { return render.RegionTable(m.shown, regions[from:to], m.width) },
		open:  func(i int) { m.openRegion(regions[i].ID) },
		empty: m.none("Nothing mapped outside of the allocator since the attach."),
		rest:  more(m.shown.RegionsMore),
	}
}

func (m *Screen) mappingList() list {
	var all []report.Mapping
	left := 0
	for i := range m.shown.Processes {
		p := &m.shown.Processes[i]
		all = append(all, render.ResidentMappings(p)...)
		left += p.MappingsMore
	}
	all = slices.DeleteFunc(all, func(x report.Mapping) bool { return !matches(m.filters[mappedView], x.Name, x.Perms) })
	return list{
		keys:  keysOf(len(all), func(i int) string { return all[i].Perms + all[i].Name }),
		table: func(from, to int) render.Table { return render.MappingTable(all[from:to], m.width) },
		empty: m.none("Mappings were not read yet."),
		rest:  more(left),
	}
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("and %d more", n)
}

func (m *Screen) poolList() list {
	all, left := render.Pools(m.shown)
	all = slices.DeleteFunc(all, func(p render.NamedPool) bool { return !matches(m.filters[poolsView], p.Name) })
	return list{
		keys:  keysOf(len(all), func(i int) string { return all[i].Name }),
		table: func(from, to int) render.Table { return render.PoolTable(m.shown, all[from:to], m.width) },
		empty: m.none("No pools: --layer counts those of a program's own allocator (memtrace help allocators)."),
		rest:  more(left),
	}
}

func (m *Screen) processList() list {
	all := slices.DeleteFunc(render.ProcessesByWeight(m.shown), func(p report.Process) bool {
		return !matches(m.filters[processesView], p.Comm, p.Exe, strconv.Itoa(p.PID))
	})
	return list{
		keys:  keysOf(len(all), func(i int) string { return strconv.Itoa(all[i].ID) }),
		table: func(from, to int) render.Table { return render.ProcessTable(m.shown, all[from:to], m.width) },
		open:  func(i int) { m.openProcess(all[i].ID) },
		empty: m.none("No process is traced yet."),
	}
}
