package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/matrix"
)

// diffParts is how many components of each process the text shows.
const diffParts = 3

// machineFigures are those of meminfo that the text shows.
var machineFigures = []string{"MemAvailable", "MemFree", "AnonPages", "Mapped", "Cached", "Shmem", "Slab", "PageTables", "SwapFree"}

func diffText(d *matrix.Diff, opt MatrixOptions) []byte {
	p := &diffPage{page: &page{width: opt.Width, color: opt.Color}, d: d, opt: opt}
	a, b := d.A, d.B
	p.flow(bold, "", []string{
		"From " + a.Machine.Hostname + " " + a.Begin.UTC().Format("2006-01-02 15:04:05 UTC"),
		"to " + b.Machine.Hostname + " " + b.Begin.UTC().Format("2006-01-02 15:04:05 UTC"), p.apart(),
	}, ", ")
	if !d.SameBoot {
		p.prose(warning, "", "The snapshots are of two boots or of two machines: no process of one is in the other. "+
			"What their components use can be compared by name.")
	}
	p.line(plain, "")
	p.processes()
	p.line(plain, "")
	p.components()
	p.machine()
	if d.Unknown > 0 {
		p.line(plain, "")
		p.prose(plain, "", fmt.Sprintf("Of %s the growth is not known, as one of the snapshots could not read it: %s.",
			counted(uint64(d.Unknown), "process", "processes"), p.firstUnknown()))
	}
	return p.bytes()
}

type diffPage struct {
	*page
	d   *matrix.Diff
	opt MatrixOptions
}

// apart is the time between the snapshots.
func (p *diffPage) apart() string {
	t := p.d.B.Begin.Sub(p.d.A.Begin)
	if t < 0 {
		return "which is " + duration(uint64(-t)) + " EARLIER"
	}
	return duration(uint64(t)) + " later"
}

func (p *diffPage) growth(d matrix.Delta) string {
	if p.opt.Unit == "" {
		return signed(d.Growth(), shortSize)
	}
	return signed(d.Growth(), func(v uint64) string { return p.opt.Unit.format(v, p.d.B.Machine.PageSize) })
}

func (p *diffPage) cells(d *matrix.Deltas) []string {
	return []string{p.growth(d.PSS), p.growth(d.USS), p.growth(d.RSS), p.growth(d.Swap)}
}

// processes lists processes by growth, each with the components that made most
// of it.
func (p *diffPage) processes() {
	g := &grid{left: map[int]bool{5: true, 6: true}, styles: map[int]style{0: bold}}
	g.add("ΔPSS", "ΔUSS", "ΔRSS", "ΔSWAP", "PID", "STATE", "PROCESS, COMPONENT")
	changes := slices.DeleteFunc(slices.Clone(p.d.Processes), func(c matrix.Change) bool {
		return c.State == matrix.Unknown || c.State == matrix.Stayed && len(c.Components) == 0
	})
	shown := p.ends(changes)
	for i := range shown {
		c := &shown[i]
		g.styles[len(g.rows)] = bold
		state := string(c.State)
		if c.State == matrix.Stayed {
			state = ""
		}
		g.add(append(p.cells(&c.Deltas), strconv.Itoa(c.PID), state, processName(c))...)
		for _, part := range p.parts(c.Components) {
			g.add(append(p.cells(&part.Deltas), "", "", "  "+p.component(&part))...)
		}
	}
	g.styles[len(g.rows)] = bold
	g.add(append(p.cells(&p.d.Total), "", "", "all")...)
	g.addTo(p.page)
	if n := len(changes) - len(shown); n > 0 {
		p.line(dim, count(uint64(n))+" more processes changed (--top 0 shows all)")
	}
}

// ends are the --top processes that changed most, in either direction, in the
// order of growth.
func (p *diffPage) ends(changes []matrix.Change) []matrix.Change {
	if p.opt.Top <= 0 || len(changes) <= p.opt.Top {
		return changes
	}
	byAmount := slices.Clone(changes)
	slices.SortStableFunc(byAmount, func(a, b matrix.Change) int {
		return cmp.Compare(amount(b.Of(p.d.By)), amount(a.Of(p.d.By)))
	})
	shown := byAmount[:p.opt.Top]
	slices.SortStableFunc(shown, func(a, b matrix.Change) int {
		return cmp.Compare(b.Of(p.d.By).Growth(), a.Of(p.d.By).Growth())
	})
	return shown
}

func amount(d matrix.Delta) uint64 {
	if d.After >= d.Before {
		return d.After - d.Before
	}
	return d.Before - d.After
}

// parts are the components that changed most.
func (p *diffPage) parts(list []matrix.ComponentChange) []matrix.ComponentChange {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b matrix.ComponentChange) int {
		return cmp.Compare(amount(b.Of(p.d.By)), amount(a.Of(p.d.By)))
	})
	list = slices.DeleteFunc(list, func(c matrix.ComponentChange) bool { return amount(c.Of(p.d.By)) == 0 })
	return topRows(list, diffParts)
}

func (p *diffPage) component(c *matrix.ComponentChange) string {
	name := clean(c.Name)
	if c.Inode != 0 {
		name += " #" + strconv.FormatUint(c.Inode, 10)
	}
	if p.width == 0 {
		return name
	}
	return elidePath(name, max(p.width-44, 12))
}

// processName is its name, or both where it called exec in between.
func processName(c *matrix.Change) string {
	name := clean(c.Process().Comm)
	if c.Before != nil && c.After != nil && c.Before.Comm != c.After.Comm {
		name = clean(c.Before.Comm) + " → " + name
	}
	if command := strings.Join(c.Process().Cmdline, " "); command != "" {
		name += "  " + clip(clean(command), 120)
	}
	return name
}

// components lists components by growth over all processes.
func (p *diffPage) components() {
	g := &grid{left: map[int]bool{4: true, 5: true}, styles: map[int]style{0: bold}}
	g.add("ΔPSS", "ΔUSS", "ΔRSS", "ΔSWAP", "KIND", "COMPONENT, OVER ALL PROCESSES")
	list := slices.Clone(p.d.Components)
	if p.opt.Top > 0 && len(list) > p.opt.Top {
		slices.SortStableFunc(list, func(a, b matrix.ComponentChange) int {
			return cmp.Compare(amount(b.Of(p.d.By)), amount(a.Of(p.d.By)))
		})
		list = list[:p.opt.Top]
		slices.SortStableFunc(list, func(a, b matrix.ComponentChange) int {
			return cmp.Compare(b.Of(p.d.By).Growth(), a.Of(p.d.By).Growth())
		})
	}
	for i := range list {
		g.add(append(p.cells(&list[i].Deltas), list[i].Kind.String(), p.component(&list[i]))...)
	}
	g.addTo(p.page)
	if n := len(p.d.Components) - len(list); n > 0 {
		p.line(dim, count(uint64(n))+" more components changed (--top 0 shows all)")
	}
}

// machine lists how the machine's own figures changed.
func (p *diffPage) machine() {
	var items []string
	for _, name := range machineFigures {
		for _, f := range p.d.Machine {
			if f.Name == name && f.Growth() != 0 {
				items = append(items, name+" "+signed(f.Growth(), size))
			}
		}
	}
	if len(items) > 0 {
		p.line(plain, "")
		p.flow(plain, "Machine  ", items, ", ")
	}
}

// firstUnknown names one process, and why nothing is known of it.
func (p *diffPage) firstUnknown() string {
	for i := range p.d.Processes {
		if c := &p.d.Processes[i]; c.State == matrix.Unknown {
			return fmt.Sprintf("%s (%d) %s", clean(c.Process().Comm), c.PID, whyUnknown(c))
		}
	}
	return ""
}
