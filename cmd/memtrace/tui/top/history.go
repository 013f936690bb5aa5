package top

import "time"

// trendLength is how many values a process's sparkline keeps.
const trendLength = 20

// History adds to each Snapshot what only two of them together tell: CPU
// shares, changes of PSS and trends. It forgets what has ended.
type History struct {
	at        time.Time
	processes map[ID]*past
	threads   map[ID]past
	used      []int64 // of the machine
}

type past struct {
	cpu   Figure
	pss   Figure
	trend []int64
}

// Add completes s, which must be newer than the Snapshots before it.
func (h *History) Add(s *Snapshot) {
	elapsed := s.At.Sub(h.at)
	first := h.at.IsZero()
	h.at = s.At
	h.addProcesses(s, elapsed, first)
	h.addThreads(s, elapsed, first)
	if s.Machine.Total.Known() && s.Machine.Available.Known() {
		h.used = pushed(h.used, s.Machine.Total.N-s.Machine.Available.N)
	}
}

func (h *History) addProcesses(s *Snapshot, elapsed time.Duration, first bool) {
	now := make(map[ID]*past, len(s.Processes))
	for i := range s.Processes {
		p := &s.Processes[i]
		was := h.processes[p.id()]
		if was == nil {
			was = &past{}
			p.CPU = rate(p.CPUTime, time.Duration(p.Running.N))
		} else if !first {
			p.CPU = rate(p.CPUTime.minus(was.cpu), elapsed)
			p.DeltaPSS = p.PSS.minus(was.pss)
		}
		was.cpu = p.CPUTime
		if p.PSS.State != Unread {
			was.pss = p.PSS // else the change since it was last known is shown once it is known again
		}
		if p.RSS.Known() {
			was.trend = pushed(was.trend, p.RSS.N)
		}
		p.Trend = append([]int64(nil), was.trend...)
		now[p.id()] = was
	}
	h.processes = now
}

func (h *History) addThreads(s *Snapshot, elapsed time.Duration, first bool) {
	now := make(map[ID]past, len(s.Threads))
	for i := range s.Threads {
		t := &s.Threads[i]
		id := ID{PID: t.TID, Start: s.Of.Start}
		if was, ok := h.threads[id]; ok && !first {
			t.CPU = rate(t.CPUTime.minus(was.cpu), elapsed)
		} else {
			t.CPU = rate(t.CPUTime, time.Duration(t.Running.N))
		}
		now[id] = past{cpu: t.CPUTime}
	}
	h.threads = now
}

// rate is CPU time per elapsed time, in hundredths of a percent.
func rate(spent Figure, elapsed time.Duration) Figure {
	if !spent.Known() {
		return spent
	}
	if elapsed <= 0 {
		return Figure{}
	}
	return Figure{N: int64(float64(max(spent.N, 0)) / float64(elapsed) * 10_000), State: Known}
}

func pushed(values []int64, v int64) []int64 {
	if len(values) >= trendLength {
		copy(values, values[1:])
		values = values[:trendLength-1]
	}
	return append(values, v)
}
