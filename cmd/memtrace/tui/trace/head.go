package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// headLines are what every view has: what is traced, RSS by kind, the heap, what to look
// at, and the views. A low terminal has the first, the second and the fourth.
func (m *Screen) headLines() []string {
	lines := []string{m.titleLine()}
	if m.shown == nil {
		return lines
	}
	switch n := m.headHeight(); n {
	case 1:
		return lines
	case 5:
		return append(lines, rssLine(m.shown, m.width), m.heapLine(), m.verdictLine(), m.tabLine())
	default:
		return append(lines, rssLine(m.shown, m.width), m.verdictLine(), m.tabLine())[:n]
	}
}

// titleLine says what is traced, for how long, and what was lost: that always, where anything was.
func (m *Screen) titleLine() string {
	if m.shown == nil {
		return tui.Styled(render.Clip("memtrace: attached", m.width), m.theme.Strong)
	}
	frozen, lost := "", lossWord(m.shown)
	if m.frozen && m.width >= 24 {
		frozen = "  FROZEN"
	}
	warn := m.shown.Events.Lost > 0
	must := render.Columns(frozen)
	if warn {
		must += 2 + render.Columns(lost)
	}
	name := render.Clip(subject(m.shown), max(m.width-must, min(m.width, 8)))
	parts := fitting(m.width-render.Columns(name)-must, "", "  traced "+render.Duration(m.shown.WindowNS), "  every "+m.opt.Interval.String(),
		unless(warn, "  "+lost), warningWord(m.shown))
	line := tui.Styled(name, m.theme.Strong) + parts + tui.Styled(frozen, m.theme.Warn)
	if warn && m.width >= must+8 {
		line += "  " + tui.Styled(lost, m.theme.Warn)
	}
	return line
}

func unless(no bool, text string) string {
	if no {
		return ""
	}
	return text
}

// subject names the process, or says how many there are.
func subject(r *report.Report) string {
	if len(r.Processes) != 1 {
		return render.Counted(uint64(len(r.Processes)), "process", "processes")
	}
	p := &r.Processes[0]
	return fmt.Sprintf("%s (pid %d)", cmp.Or(render.Clean(p.Comm), "?"), p.PID)
}

func lossWord(r *report.Report) string {
	if r.Events.Lost == 0 {
		return "nothing lost"
	}
	return render.Counted(r.Events.Lost, "event", "events") + " lost (n)"
}

func warningWord(r *report.Report) string {
	if len(r.Warnings) == 0 {
		return ""
	}
	return "  " + render.Counted(uint64(len(r.Warnings)), "warning", "warnings") + " (n)"
}

// part is one kind of RSS.
type part struct {
	name, short string
	bytes       uint64
	tenths      uint64 // of the unit that the line is in
}

// rssParts sum up RSS by kind over the processes that run.
func rssParts(r *report.Report) (rss uint64, parts []part) {
	var by report.RSSBy
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Exited || p.Usage.SampledNS == 0 {
			continue
		}
		b := p.RSSBy
		rss += p.Usage.RSS
		by.HeapLive, by.HeapOverhead, by.HeapBeforeAttach = by.HeapLive+b.HeapLive, by.HeapOverhead+b.HeapOverhead, by.HeapBeforeAttach+b.HeapBeforeAttach
		by.AnonMmap, by.File, by.Stack = by.AnonMmap+b.AnonMmap, by.File+b.File, by.Stack+b.Stack
		by.Shmem, by.Other = by.Shmem+b.Shmem, by.Other+b.Other
	}
	return rss, []part{
		{name: "live heap", short: "heap", bytes: by.HeapLive}, {name: "overhead", short: "overhead", bytes: by.HeapOverhead},
		{name: "heap before attach", short: "before", bytes: by.HeapBeforeAttach}, {name: "other anonymous", short: "anon", bytes: by.AnonMmap},
		{name: "file", short: "file", bytes: by.File}, {name: "stack", short: "stack", bytes: by.Stack},
		{name: "shmem", short: "shmem", bytes: by.Shmem}, {name: "other", short: "other", bytes: by.Other + rss - min(by.Sum(), rss)},
	}
}

// rssLine is RSS by kind. All figures have one unit and one digit behind the point, and add up as they stand:
// what rounding leaves over goes to the parts that it took most from. Where there is no room for
// all parts, the smallest are summed up as other.
func rssLine(r *report.Report, width int) string {
	rss, parts := rssParts(r)
	if rss == 0 {
		return render.Clip("RSS not read yet", width)
	}
	unit, letter := uint64(1<<10), "K"
	for _, l := range []string{"M", "G", "T"} {
		if rss < unit<<10 {
			break
		}
		unit, letter = unit<<10, l
	}
	all := apportion(parts, rss, unit)
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.tenths == 0 })
	head := fmt.Sprintf("RSS %s%s = ", tenths(all), letter)
	if line := head + sumOf(parts, false); render.Columns(line) <= width {
		return line
	}
	for ; ; parts = foldSmallest(parts) {
		if line := head + sumOf(parts, true); render.Columns(line) <= width || len(parts) < 3 {
			return render.Clip(line, width)
		}
	}
}

// apportion gives each part its tenths of unit, so that they add up to those of rss, which it returns.
func apportion(parts []part, rss, unit uint64) uint64 {
	all := (rss*10 + unit/2) / unit
	left := all
	for i := range parts {
		parts[i].tenths = parts[i].bytes * 10 / unit
		left -= min(parts[i].tenths, left)
	}
	rests := make([]int, len(parts))
	for i := range rests {
		rests[i] = i
	}
	slices.SortStableFunc(rests, func(a, b int) int { return cmp.Compare(parts[b].bytes*10%unit, parts[a].bytes*10%unit) })
	for _, i := range rests[:min(left, uint64(len(rests)))] {
		parts[i].tenths++
	}
	return all
}

func tenths(n uint64) string { return fmt.Sprintf("%d.%d", n/10, n%10) }

func sumOf(parts []part, short bool) string {
	var words []string
	for _, p := range parts {
		name := p.name
		if short {
			name = p.short
		}
		words = append(words, tenths(p.tenths)+" "+name)
	}
	return strings.Join(words, " + ")
}

// foldSmallest adds the smallest part to what is called other, the last one.
func foldSmallest(parts []part) []part {
	const other = "other"
	if parts[len(parts)-1].name != other {
		parts = append(parts, part{name: other, short: other})
	}
	least := 0
	for i := range parts[:len(parts)-1] {
		if parts[i].tenths < parts[least].tenths {
			least = i
		}
	}
	parts[len(parts)-1].tenths += parts[least].tenths
	return slices.Delete(parts, least, least+1)
}

// heapLine sums up the live heap of all processes, and how busy the allocator is.
func (m *Screen) heapLine() string {
	r := m.shown
	switch line := goLine(r, m.width); {
	case line != "":
		return line
	case r.Basis == report.FirstTouchBasis:
		return render.Clip("Heap not looked into (--probes none): sites touched their pages first", m.width)
	case unseen(r):
		return render.Clip("Heap not seen: no allocator that can be probed", m.width)
	}
	var h report.Heap
	for i := range r.Processes {
		one := &r.Processes[i].Heap
		h.LiveBytes, h.LiveCount = h.LiveBytes+one.LiveBytes, h.LiveCount+one.LiveCount
		h.AllocCount, h.FreeCount = h.AllocCount+one.AllocCount, h.FreeCount+one.FreeCount
		h.PeakBytes, h.ResidentBytes = h.PeakBytes+one.PeakBytes, h.ResidentBytes+one.ResidentBytes
	}
	parts := []string{
		"Heap " + render.Size(h.LiveBytes) + " live in " + render.Counted(h.LiveCount, "block", "blocks"),
		", " + render.ShortCount(h.AllocCount) + " allocated", ", " + render.ShortCount(h.FreeCount) + " freed",
	}
	if rate, ok := m.history.rate(); ok {
		parts = append(parts, ", "+rate+" now")
	}
	if len(r.Processes) == 1 {
		parts = append(parts, ", peak "+render.Size(h.PeakBytes))
	}
	line := fitting(m.width, "", append(parts, ", resident "+render.Size(h.ResidentBytes))...)
	if spark := m.history.heap.line(m.chars, 30); render.Columns(line)+32 <= m.width && spark != "" {
		line += "  " + tui.Styled(spark, m.theme.Bar)
	}
	return line
}

// goLine sums up what Go runtimes say of their heaps, and what is traced beside them; "" where there are none.
func goLine(r *report.Report, width int) string {
	live, grown, exact, programs, traced := uint64(0), int64(0), true, 0, uint64(0)
	margin := 0.0
	for i := range r.Processes {
		p := &r.Processes[i]
		traced += p.Heap.LiveBytes
		if g := p.GoHeap; g != nil && g.Problem == "" {
			programs++
			live, grown = live+g.LiveBytes, grown+g.GrowthBytes
			exact = exact && g.Estimate == nil
			margin += float64(g.Estimate.LiveBytes()) * float64(g.Estimate.LiveBytes())
		}
	}
	if programs == 0 {
		return ""
	}
	head := "Go heap " + render.Size(live)
	if !exact {
		head += " ± " + render.Size(uint64(math.Sqrt(margin)+0.5))
	}
	change := ", grown by " + render.Size(uint64(max(grown, 0)))
	if grown < 0 {
		change = ", shrunk by " + render.Size(uint64(-grown))
	}
	beside := ""
	if traced > 0 {
		beside = "; malloc's blocks " + render.Size(traced)
	}
	return fitting(width, "", head+" live by Go's own samples", change, beside)
}

// unseen reports whether no allocation of any process is seen.
func unseen(r *report.Report) bool {
	return len(r.Processes) > 0 && !slices.ContainsFunc(r.Processes, func(p report.Process) bool { return !p.Unprobed })
}

// tabLine lists the views with their keys, and how many leaks and warnings there are.
func (m *Screen) tabLine() string {
	names := [views]string{"Sites", "Growth, leaks", "Mapped", "Pools", "Processes", "Notes", "Threads"}
	counts := [views]int{leaksView: len(m.shown.Leaks), notesView: len(m.shown.Warnings)}
	if m.width < 70 {
		names[leaksView], names[processesView] = "Growth", "Procs"
	}
	line, at := "", 0
	for i, name := range names {
		tab := fmt.Sprintf("%d %s", i+1, name)
		if counts[i] > 0 {
			tab += fmt.Sprintf(" (%d)", counts[i])
		}
		if at+len(tab) > m.width {
			break
		}
		style := ""
		if view(i) == m.view {
			style = m.theme.Tab
		}
		line, at = line+tui.Styled(tab, style)+" ", at+len(tab)+1
		if m.width >= 80 {
			line, at = line+" ", at+1
		}
	}
	return strings.TrimRight(line, " ")
}
