package top

import (
	"slices"

	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// View is one of the tables.
type View string

// The views, in the order of their keys.
const (
	Processes  View = "processes"
	Programs   View = "programs"
	Threads    View = "threads"
	Memory     View = "memory"
	Sharing    View = "sharing"
	NUMA       View = "numa"
	Groups     View = "cgroups"
	Components View = "components"
	Mappings   View = "mappings"
)

// viewInfo is what there is to know about a view.
type viewInfo struct {
	view  View
	tab   string // its name on the screen
	sort  string // the column it is sorted by at first
	table func(*Snapshot, options) *Table
	ofOne bool // it shows one process
}

// views are all of them; the key of the first is 1.
var views = []viewInfo{
	{view: Processes, tab: "Procs", sort: "pss", table: processTable},
	{view: Programs, tab: "Progs", sort: "pss", table: programTable},
	{view: Threads, tab: "Threads", sort: "cpu", table: threadTable, ofOne: true},
	{view: Memory, tab: "Memory", sort: "", table: memoryTable},
	{view: Sharing, tab: "Sharing", sort: "saved", table: sharingTable},
	{view: NUMA, tab: "NUMA", sort: "rss", table: numaTable},
	{view: Groups, tab: "Cgroups", sort: "current", table: groupTable},
	{view: Components, tab: "Comps", sort: "pss", table: componentTable},
	{view: Mappings, tab: "Maps", sort: "pss", table: mappingTable, ofOne: true},
}

// Views returns the names of all views.
func Views() []string {
	var names []string
	for _, v := range views {
		names = append(names, string(v.view))
	}
	return names
}

// filteredAs is the view whose filter v has: those of processes share one, as
// their rows are processes, or sums of them; the others have their own.
func (v View) filteredAs() View {
	switch v {
	case Programs, Sharing, NUMA:
		return Processes
	}
	return v
}

func infoOf(v View) *viewInfo { return &views[max(indexOf(v), 0)] }

func indexOf(v View) int {
	return slices.IndexFunc(views, func(i viewInfo) bool { return i.view == v })
}

// OfOne reports whether the view shows one process, whose PID it needs.
func (v View) OfOne() bool { return infoOf(v).ofOne }

// SortKeys returns the columns that the view can be sorted by.
func (v View) SortKeys() []string {
	var names []string
	for _, c := range infoOf(v).table(&Snapshot{}, options{}).Columns {
		if c.Unit != Bar {
			names = append(names, c.Name)
		}
	}
	return names
}

// options are what a table depends on besides the Snapshot.
type options struct {
	filter    Filter
	threshold int64        // ΔPSS from which on it is bold
	chars     *tui.Charset // nil: no bars
	command   commandStyle
}

func (o options) drawing() *tui.Charset {
	if o.chars == nil {
		return &tui.Unicode
	}
	return o.chars
}

// barWidth is that of the columns with bars, trendWidth that of sparklines.
const (
	barWidth   = 16
	trendWidth = 10
)

func barColumn(name, title, doc string, rank int) Column {
	return Column{Name: name, Title: title, Doc: doc, Unit: Bar, Width: barWidth, Rank: rank}
}

// size is a column of bytes.
func size(name, title string, rank int, doc string) Column {
	return Column{Name: name, Title: title, Doc: doc, Unit: Bytes, Width: 6, Rank: rank}
}
