package analyzer

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A printedFrame is what a reader can tell frames apart by.
type printedFrame struct {
	function, file, module string
	line                   int
	offset                 uint64 // of a frame without a name
	inlined                bool
}

func printed(f *report.Frame) printedFrame {
	p := printedFrame{function: f.Function, file: f.File, module: f.Module, line: f.Line, inlined: f.Inlined}
	if f.Nameless() && f.Module != "" {
		p.function, p.offset = "", f.Offset
	}
	return p
}

// mergeSites makes one row of sites of a process whose stacks print alike: code that a JIT
// compiler moved, two calls of a function whose lines are not known. The row has the sums and
// the lowest ID, MergedIDs the others'; leaks refer to the row. It reports whether there were any.
func mergeSites(r *report.Report) bool {
	m := siteMerger{frames: make(map[*report.Frame]uint64), alike: make(map[printedFrame]uint64), rows: make(map[uint64]int), now: make(map[int]int)}
	out := r.Sites[:0:0]
	for i := range r.Sites {
		s := &r.Sites[i]
		key := m.hash(s)
		row, ok := m.rows[key]
		if ok && len(s.Stack) > 0 && m.same(&out[row], s) {
			out[row] = sumOfSites(out[row], s)
			m.now[s.ID], m.merged = row, true
			continue
		}
		if !ok {
			m.rows[key] = len(out)
		}
		m.now[s.ID] = len(out)
		out = append(out, *s)
	}
	if !m.merged {
		return false
	}
	r.Sites = out
	for i := range r.Leaks {
		if row, ok := m.now[r.Leaks[i].Site]; ok {
			r.Leaks[i].Site = out[row].ID
		}
	}
	mergeLeaks(r)
	return true
}

// siteMerger looks for sites that print alike.
type siteMerger struct {
	frames map[*report.Frame]uint64 // the number of what each prints, as sites share Frames
	lately [1 << 11]struct {        // of those that came lately, most of them
		frame  *report.Frame
		number uint64
	}
	alike  map[printedFrame]uint64
	rows   map[uint64]int // by hash
	now    map[int]int    // row of each site, by ID
	merged bool
}

// number tells what frames print apart.
func (m *siteMerger) number(f *report.Frame) uint64 {
	lately := &m.lately[uint64(uintptr(unsafe.Pointer(f)))*0x9e3779b97f4a7c15>>53]
	if lately.frame == f {
		return lately.number
	}
	n, ok := m.frames[f]
	if !ok {
		p := printed(f)
		if n, ok = m.alike[p]; !ok {
			n = uint64(len(m.alike))
			m.alike[p] = n
		}
		m.frames[f] = n
	}
	lately.frame, lately.number = f, n
	return n
}

func (m *siteMerger) hash(s *report.Site) uint64 {
	const prime = 0x100000001b3 // FNV-1a
	h := (0xcbf29ce484222325 ^ uint64(s.Process)) * prime
	for _, f := range s.Stack {
		h = (h ^ m.number(f)) * prime
	}
	return h
}

func (m *siteMerger) same(s, o *report.Site) bool {
	return s.Process == o.Process && s.Function == o.Function && s.Basis == o.Basis && s.Truncated == o.Truncated && s.FramePointers == o.FramePointers &&
		slices.EqualFunc(s.Stack, o.Stack, func(f, g *report.Frame) bool { return m.number(f) == m.number(g) })
}

// sumOfSites is the row of two sites. Their peaks need not have been at one time: their sum is
// the most that it can have been.
func sumOfSites(s report.Site, o *report.Site) report.Site {
	s.MergedIDs = append(slices.Clip(s.MergedIDs), max(s.ID, o.ID))
	slices.Sort(s.MergedIDs)
	s.ID = min(s.ID, o.ID)
	s.LiveBytes += o.LiveBytes
	s.LiveCount += o.LiveCount
	s.AllocBytes += o.AllocBytes
	s.AllocCount += o.AllocCount
	s.FreeCount += o.FreeCount
	s.TemporaryCount += o.TemporaryCount
	s.PeakLiveBytes += o.PeakLiveBytes
	s.ResidentBytes += o.ResidentBytes
	s.UntouchedBytes += o.UntouchedBytes
	s.SwappedBytes += o.SwappedBytes
	s.Faults += o.Faults
	s.DoubtfulCount += o.DoubtfulCount
	s.DoubtfulBytes += o.DoubtfulBytes
	s.GrowthBytes += o.GrowthBytes
	s.OldestNS = max(s.OldestNS, o.OldestNS)
	s.SizeHistogram = sumSizes(s.SizeHistogram, o.SizeHistogram)
	s.Estimate = s.Estimate.With(o.Estimate)
	return s
}

// sumSizes adds up two histograms, both ascending.
func sumSizes(a, b [][2]uint64) [][2]uint64 {
	out := make([][2]uint64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0][0], b[0][0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, [2]uint64{a[0][0], a[0][1] + b[0][1]})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// mergeLeaks adds up the verdicts on one site that differ in their figures alone. What
// was found by lifetimes was found of each part, and stays.
func mergeLeaks(r *report.Report) {
	type key struct {
		site               int
		kind, why          string
		doubtful, noGrowth bool
	}
	at := make(map[key]int)
	out := make([]report.Leak, 0, len(r.Leaks))
	for i := range r.Leaks {
		l := &r.Leaks[i]
		k := key{l.Site, l.Kind, l.Why, l.Doubtful, !l.Growing}
		if row, ok := at[k]; ok && report.IsVerdict(l.Kind) && !l.Growing {
			out[row] = sumOfAges(out[row], l)
			continue
		}
		at[k] = len(out)
		out = append(out, *l)
	}
	r.Leaks = out
}

// sumOfAges is the sum of two verdicts of a Report, whose blocks' times are ages.
func sumOfAges(l report.Leak, o *report.Leak) report.Leak {
	oldest, newest := max(l.OldestNS, o.OldestNS), min(l.NewestNS, o.NewestNS)
	pages := l.Pages
	if pages != nil && o.Pages != nil {
		pages = &report.LeakPages{Resident: pages.Resident + o.Pages.Resident, Untouched: pages.Untouched + o.Pages.Untouched,
			Swapped: pages.Swapped + o.Pages.Swapped}
	} else if pages == nil {
		pages = o.Pages
	}
	l = sumOfLeaks(l, o)
	l.OldestNS, l.NewestNS, l.Pages = oldest, newest, pages
	return l
}
