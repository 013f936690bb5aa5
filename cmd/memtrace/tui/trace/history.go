package trace

import (
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// historyLength is how many values a series keeps.
const historyLength = 120

// series are the last values of a figure, oldest first.
type series []int64

func (s series) with(v int64) series {
	if len(s) >= historyLength {
		copy(s, s[1:])
		s = s[:historyLength-1]
	}
	return append(s, v)
}

// line draws the last values; "" where there are too few to see anything in.
func (s series) line(chars *tui.Charset, width int) string {
	if len(s) < 2 {
		return ""
	}
	return chars.Sparkline(s, width)
}

// history is what the Reports before said. It forgets the sites that are listed no more.
type history struct {
	heap     series         // live bytes of all
	sites    map[int]series // by Site.ID: live bytes
	windowNS uint64
	allocs   uint64
	recent   string // allocations a second between the last two Reports
}

func (h *history) add(r *report.Report) {
	live, allocs := uint64(0), uint64(0)
	for i := range r.Processes {
		live += r.Processes[i].Heap.LiveBytes
		allocs += r.Processes[i].Heap.AllocCount
	}
	h.recent = ""
	if h.windowNS > 0 && r.WindowNS > h.windowNS && allocs >= h.allocs {
		perSecond := float64(allocs-h.allocs) / (float64(r.WindowNS-h.windowNS) / 1e9)
		h.recent = render.ShortCount(uint64(perSecond+0.5)) + "/s"
	}
	h.windowNS, h.allocs = r.WindowNS, allocs
	h.heap = h.heap.with(int64(live))
	now := make(map[int]series, len(r.Sites))
	for i := range r.Sites {
		s := &r.Sites[i]
		now[s.ID] = h.sites[s.ID].with(int64(s.LiveBytes))
	}
	h.sites = now
}

// rate is how many allocations a second came between the last two Reports.
func (h *history) rate() (string, bool) { return h.recent, h.recent != "" }
