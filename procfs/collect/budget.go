package collect

import (
	"sync/atomic"
	"time"
)

// Budget bounds what walking page tables may cost, as each walk holds its
// target's mmap lock: meanwhile the target's own mmap, munmap and, on older
// kernels, page faults wait. The zero Budget bounds nothing and walks every
// process in every pass.
type Budget struct {
	// Stall is how long the walks of one target may take per second, on
	// average: after a walk of 10 ms, a Stall of 2 ms leaves the target alone
	// for 5 s. 0: no bound.
	Stall time.Duration
	// MaxHold is the longest walk that is done at all; the figures of a target
	// that is predicted to take longer are procfs.Deferred. 0: 50 times Stall.
	MaxHold time.Duration
	// Total is how long the walks of all targets may take per second, the
	// first pass excepted; those whose figures are oldest come first. 0: no bound.
	Total time.Duration
	// MaxAge is how old the figures of a target get that has not changed by
	// its counters. Its PSS and USS may change all the same, when others begin
	// or cease to share its pages. 0: unchanged targets are walked too.
	MaxAge time.Duration
}

// DefaultBudget is that of a live view.
func DefaultBudget() Budget {
	return Budget{Stall: 2 * time.Millisecond, Total: 5 * time.Millisecond, MaxAge: 30 * time.Second}
}

// bounds reports whether anything is bounded.
func (b *Budget) bounds() bool { return *b != Budget{} }

// maxHold is the longest walk, or 0 for no bound.
func (b *Budget) maxHold() time.Duration {
	if b.MaxHold > 0 {
		return b.MaxHold
	}
	return 50 * b.Stall
}

// rest is how long to leave a target alone after a walk.
func (b *Budget) rest(walk time.Duration) time.Duration {
	if b.Stall <= 0 {
		return 0
	}
	return time.Duration(float64(walk) / float64(b.Stall) * float64(time.Second))
}

// Walks says what the walks of a pass came to.
type Walks struct {
	Done      int           // targets that were walked
	Unchanged int           // left out, as their counters are what they were
	Deferred  int           // changed or old, but over the budget in this pass
	TooLong   int           // left out for good, as a walk would exceed Budget.MaxHold
	Held      time.Duration // measured, all walks together
	Predicted time.Duration // for the same walks
	Longest   time.Duration // the longest of them
	LongestOf int           // its PID
	Oldest    time.Duration // age of the oldest figure that the pass holds
}

// A walk takes about fixedCost, a cost for each resident page, and one for each
// mapping, which tells only where there are thousands. Measured on Linux 6.18
// in a virtual machine: 22 ns for small pages; a Meter measures.
const (
	fixedCost     = 5 * time.Microsecond
	firstPageCost = 22 * time.Nanosecond
	// mappingCost is what each mapping takes that has a page or two; 85 ns where it has none.
	mappingCost = 300 * time.Nanosecond
	// enoughPages is what a walk must have for its time to tell the cost of a page.
	enoughPages = 1000
)

// Meter predicts how long the walk of a process's page tables takes, and
// learns from walks. It may be used concurrently. The zero value is for use.
type Meter struct {
	picoseconds atomic.Int64 // per page
}

// Predict returns how long a walk over so many resident bytes takes, in so
// many mappings, or 0 where that is not known.
func (m *Meter) Predict(resident uint64, mappings int) time.Duration {
	pages := resident / pageSize
	return fixedCost + time.Duration(pages*uint64(m.perPage())/1000) + time.Duration(mappings)*mappingCost
}

// PageCost is what a small page takes, as measured so far.
func (m *Meter) PageCost() time.Duration { return time.Duration(m.perPage() / 1000) }

func (m *Meter) perPage() int64 {
	if ps := m.picoseconds.Load(); ps > 0 {
		return ps
	}
	return int64(firstPageCost) * 1000
}

// Observe learns from a walk. It steps towards the measured cost by a
// sixteenth, whatever the distance: so it comes to rest at the median, and a
// walk that was interrupted, or one over huge pages, doesn't throw it off.
func (m *Meter) Observe(resident uint64, took time.Duration) {
	pages := resident / pageSize
	if pages < enoughPages || took <= fixedCost {
		return
	}
	was := m.perPage()
	step := was / 16
	if seen := int64(took-fixedCost) * 1000 / int64(pages); seen < was {
		step = -step
	}
	m.picoseconds.Store(max(was+step, 100))
}
