package gate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/threshold"
)

// A figure is what a limit can be set on.
type figure struct {
	name     string
	value    func(threshold.Quantity) (float64, error)
	show     func(float64) string
	kinds    bool // its subject is a kind of leak; otherwise a process
	traced   bool // it takes the trace of allocations
	overTime bool // one look does not tell it
	frees    bool // it takes the time at which blocks are freed

	// read gives the figure of one process at one Report, false where that
	// was not measured (later than the warm-up, of which base is the end).
	read func(p *report.Process, base *base) (float64, bool)
	sum  bool // over processes; otherwise the greatest counts
	// summedChildren: it includes the children that a Report sums up in one entry. For
	// them there are no readings of memory and no values over time.
	summedChildren bool
}

// growthFigure is the figure that a Go program's own samples tell, too.
const growthFigure = "growth"

// figures by name. docs/ci.md names the field of the Report that each reads.
var figures = []figure{
	{name: "leak", value: inBytes, show: showBytes, kinds: true, traced: true},
	{name: "leak.blocks", value: inCount, show: showCount, kinds: true, traced: true},
	{name: "rss", value: inBytes, show: showBytes, read: usage(func(u *report.Usage) uint64 { return u.RSS })},
	{name: "pss", value: inBytes, show: showBytes, read: usage(func(u *report.Usage) uint64 { return u.PSS })},
	{name: "uss", value: inBytes, show: showBytes, read: usage(func(u *report.Usage) uint64 { return u.USS })},
	{name: "swap", value: inBytes, show: showBytes, read: usage(func(u *report.Usage) uint64 { return u.Swap })},
	{name: "heap", value: inBytes, show: showBytes, traced: true, frees: true, overTime: true, summedChildren: true, read: heap},
	{name: growthFigure, value: inRate, show: showRate, traced: true, overTime: true},
	{name: "allocs", value: inCount, show: showCount, traced: true, overTime: true, summedChildren: true, sum: true, read: since(func(h *report.Heap) uint64 { return h.AllocCount })},
	{name: "alloc.bytes", value: inBytes, show: showBytes, traced: true, overTime: true, summedChildren: true, sum: true, read: since(func(h *report.Heap) uint64 { return h.AllocBytes })},
}

// Figures lists what a limit can be set on.
func Figures() (out []string) {
	for i := range figures {
		out = append(out, figures[i].name)
	}
	return out
}

func figureOf(name string) *figure {
	for i := range figures {
		if figures[i].name == name {
			return &figures[i]
		}
	}
	return nil
}

func inBytes(q threshold.Quantity) (float64, error) { return q.Bytes() }
func inCount(q threshold.Quantity) (float64, error) { return q.Count() }
func inRate(q threshold.Quantity) (float64, error)  { return q.BytesPerSecond() }

func showBytes(v float64) string { return report.HumanBytes(v) }
func showCount(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
func showRate(v float64) string {
	if v < 0 {
		return "-" + showRate(-v)
	}
	return report.HumanBytes(v*60) + "/min"
}

// base is the state of the processes when the warm-up was over.
type base struct {
	warmUp uint64                   // ns since the attach
	heaps  map[program]*report.Heap // none where there is no warm-up
}

func usage(field func(*report.Usage) uint64) func(*report.Process, *base) (float64, bool) {
	return func(p *report.Process, b *base) (float64, bool) {
		return float64(field(&p.Usage)), p.Usage.SampledNS != 0 && p.Usage.SampledNS >= b.warmUp
	}
}

// heap is the peak of the live heap, if that was after the warm-up; otherwise
// the live heap at the Report.
func heap(p *report.Process, b *base) (float64, bool) {
	if p.Heap.PeakAtNS >= b.warmUp {
		return float64(p.Heap.PeakBytes), true
	}
	return float64(p.Heap.LiveBytes), true
}

func since(field func(*report.Heap) uint64) func(*report.Process, *base) (float64, bool) {
	return func(p *report.Process, b *base) (float64, bool) {
		v := field(&p.Heap)
		if before := b.heaps[programOf(p)]; before != nil {
			v -= min(v, field(before))
		}
		return float64(v), true
	}
}

// named reports whether a process is what a limit names: by its name, or as
// "pid:7" by its ID. Children that are summed up have neither: what stands there is
// their parent's.
func named(p *report.Process, subject string) bool {
	return subject == "" || p.Children == 0 && (p.Comm == subject || "pid:"+strconv.Itoa(p.PID) == subject)
}

// A measure is the value of a figure so far.
type measure struct {
	value float64
	known bool
	pid   int
	comm  string
}

func (m *measure) raise(v float64, p *report.Process) {
	if !m.known || v > m.value {
		*m = measure{v, true, p.PID, p.Comm}
	}
}

func (m *measure) text(f *figure) string {
	if math.IsNaN(m.value) || !m.known {
		return "not measured"
	}
	text := f.show(m.value)
	if m.pid != 0 {
		text += fmt.Sprintf(" (process %d %s)", m.pid, m.comm)
	}
	return text
}
