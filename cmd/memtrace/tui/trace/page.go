package trace

import (
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// open shows a page instead of the table.
func (m *Screen) open(page func() []string) { m.page, m.pageFirst = page, 0 }

// openGroup shows the sites of a group.
func (m *Screen) openGroup(key string) {
	if m.by == report.BySize {
		m.message = "sizes are those of allocations: key g groups by what can be opened"
		return
	}
	m.group, m.cursor, m.first, m.pinned = key, 0, 0, ""
	m.build()
}

// openSite shows all that is known of a site, as the latest Report has it.
func (m *Screen) openSite(id int) {
	m.open(func() []string {
		if s := m.shown.Site(id); s != nil {
			return m.sitePage(s)
		}
		return []string{fmt.Sprintf("Site #%d is listed no more: it holds too little.", id)}
	})
}

func (m *Screen) sitePage(s *report.Site) []string {
	lines := []string{"# #" + fmt.Sprint(s.ID) + " " + render.SiteName(s)}
	lines = append(lines, m.siteFigures(s)...)
	for i := range m.shown.Leaks {
		if l := &m.shown.Leaks[i]; l.Site == s.ID {
			lines = append(lines, render.LeakLines(m.shown, l, s, m.width)...)
		}
	}
	lines = append(lines, m.siteHistory(s)...)
	lines = append(lines, "# Stack, innermost first")
	lines = append(lines, render.StackLines(s, m.width)...)
	return append(lines, m.siteSizes(s)...)
}

// siteFigures are what a site holds and how long its blocks live.
func (m *Screen) siteFigures(s *report.Site) []string {
	pm := func(e uint64) string {
		if e == 0 {
			return ""
		}
		return " ± " + render.Size(e)
	}
	if m.shown.Basis == report.FirstTouchBasis {
		return slices.Concat(
			render.Prose(fmt.Sprintf("First touched %s in %s that are resident; peak %s", render.Size(s.LiveBytes),
				render.Counted(s.LiveCount, "page", "pages"), render.Size(s.PeakLiveBytes)), m.width),
			render.Prose(fmt.Sprintf("Touched %s (%s), %s of them are gone", render.Counted(s.AllocCount, "page", "pages"),
				render.Size(s.AllocBytes), render.Counted(s.FreeCount, "page", "pages")), m.width))
	}
	if s.Basis == report.GoProfile {
		return slices.Concat(
			render.Prose(fmt.Sprintf("Holds %s%s in %s, by the Go runtime's own samples", render.Size(s.LiveBytes), pm(s.Estimate.LiveBytes()),
				render.Counted(s.LiveCount, "block", "blocks")), m.width),
			render.Prose(fmt.Sprintf("Allocated %s (%s), freed %s", render.Counted(s.AllocCount, "block", "blocks"),
				render.Size(s.AllocBytes), render.Counted(s.FreeCount, "block", "blocks")), m.width))
	}
	lives := "Lifetimes: " + render.Percent(s.FreeCount, s.AllocCount) + " of all blocks were freed, "
	if s.FreesUnseen {
		lives += "when is not known (--probes allocs)"
	} else {
		lives += render.Percent(s.TemporaryCount, s.AllocCount) + " before their thread's next allocation"
	}
	if s.LiveCount > 0 {
		lives += "; the oldest live one is " + render.Duration(s.OldestNS) + " old"
	}
	return slices.Concat(
		render.Prose(fmt.Sprintf("Holds %s%s in %s; peak %s", render.Size(s.LiveBytes), pm(s.Estimate.LiveBytes()),
			render.Counted(s.LiveCount, "block", "blocks"), render.Size(s.PeakLiveBytes)), m.width),
		render.Prose(fmt.Sprintf("Allocated %s (%s), freed %s", render.Counted(s.AllocCount, "block", "blocks"),
			render.Size(s.AllocBytes), render.Counted(s.FreeCount, "block", "blocks")), m.width),
		render.Prose(m.residency(s), m.width),
		render.Prose(lives, m.width))
}

// residency is where a site's bytes are, if it was looked.
func (m *Screen) residency(s *report.Site) string {
	for i := range m.shown.Processes {
		if p := &m.shown.Processes[i]; p.ID == s.Process && p.Heap.CorrelatedNS == 0 {
			return "Resident: not measured yet"
		}
	}
	return fmt.Sprintf("Resident %s, untouched %s, swapped %s; %s", render.Size(s.ResidentBytes), render.Size(s.UntouchedBytes),
		render.Size(s.SwappedBytes), render.Counted(s.Faults, "page fault", "page faults"))
}

// siteHistory draws what the site held at the last Reports.
func (m *Screen) siteHistory(s *report.Site) []string {
	past := m.history.sites[s.ID]
	width := min(len(past), max(m.width-2, 1))
	line := past.line(m.chars, width)
	if line == "" {
		return nil
	}
	past = past[len(past)-width:]
	return []string{
		fmt.Sprintf("# Live bytes at the last %d updates: from %s to %s", width, render.Size(uint64(slices.Min(past))), render.Size(uint64(slices.Max(past)))),
		"  " + line,
	}
}

// siteSizes draws how many allocations there were of each class of sizes.
func (m *Screen) siteSizes(s *report.Site) []string {
	most := uint64(0)
	for _, bucket := range s.SizeHistogram {
		most = max(most, bucket[1])
	}
	if most == 0 {
		return nil
	}
	lines := []string{"# Sizes of its allocations"}
	for _, bucket := range s.SizeHistogram {
		lines = append(lines, fmt.Sprintf("  up to %9s %7s  %s", render.Size(bucket[0]), render.ShortCount(bucket[1]),
			m.chars.Bar(int64(bucket[1]), int64(most), min(30, max(m.width-28, 0)))))
	}
	return lines
}

// openRegion shows who maps memory.
func (m *Screen) openRegion(id int) {
	m.open(func() []string {
		i := slices.IndexFunc(m.shown.Regions, func(g report.Region) bool { return g.ID == id })
		if i < 0 {
			return []string{"These mappings are gone."}
		}
		g := &m.shown.Regions[i]
		s := &report.Site{Function: g.Function, Stack: g.Stack, Truncated: g.Truncated, FramePointers: g.FramePointers}
		lines := []string{"# " + render.SiteName(s) + " maps " + render.Clean(g.Kind) + " memory"}
		lines = append(lines, render.Prose(fmt.Sprintf("Mapped %s in %s, of %s mapped by %s; resident %s, swapped %s; peak %s", render.Size(g.LiveBytes),
			render.Counted(g.LiveCount, "piece", "pieces"), render.Size(g.MappedBytes), render.Counted(g.MappedCount, "call", "calls"),
			render.Size(g.ResidentBytes), render.Size(g.SwappedBytes), render.Size(g.PeakLiveBytes)), m.width)...)
		lines = append(lines, "# Stack, innermost first")
		return append(lines, render.StackLines(s, m.width)...)
	})
}

// openProcess shows what the Report says of a process.
func (m *Screen) openProcess(id int) {
	m.open(func() []string {
		i := slices.IndexFunc(m.shown.Processes, func(p report.Process) bool { return p.ID == id })
		if i < 0 {
			return []string{"This process is listed no more."}
		}
		return render.ProcessLines(m.shown, &m.shown.Processes[i], m.width)
	})
}
