package heapwalk

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/procfs"
)

// The target writes what a walk follows. Whatever it says there, one walk reads
// so many bytes by so many calls and no more: several times what the walk of a
// heap that is as large as all of the process's memory takes.
const (
	leastBytes   = 2 << 30
	leastCalls   = 1 << 19
	searchCalls  = 1 << 16 // of leastCalls, until the arenas are found
	timesRead    = 8       // all of its memory
	maxSearch    = 1 << 24 // steps to find back from one chunk to the next, of all regions
	maxAllHeaps  = 1 << 16 // heaps of all threads' arenas
	maxHeapBytes = 1 << 32 // of one of those
)

// ErrTooMuch means that a heap was given up, as going through it took more than
// its process can have any use for.
var ErrTooMuch = errors.New("its heap was not gone through: what looks like malloc's records there leads round and round, " +
	"or is far more than it has memory")

// budget is what one walk may take yet.
type budget struct {
	limited      bool
	bytes, calls uint64 // that are left
	spent        bool
}

func newBudget(p *procfs.Process) budget {
	has := uint64(0) // in memory or in swap
	if s, err := p.Status(); err == nil {
		has = s.VmRSS + s.VmSwap
	}
	return budget{limited: true, bytes: leastBytes + timesRead*has, calls: leastCalls + has/minChunk}
}

// within has fn do with at most so many calls of the budget.
func (b *budget) within(calls uint64, fn func()) {
	rest := b.calls - min(b.calls, calls)
	b.calls -= rest
	fn()
	b.calls += rest
}

// take counts a call that reads. It fails once the budget is spent.
func (b *budget) take(bytes int) error {
	if b.limited && (b.spent || b.calls == 0 || b.bytes < uint64(bytes)) {
		b.spent = true
		return fmt.Errorf("%w: %w", errUnreadable, ErrTooMuch)
	}
	if b.limited {
		b.calls--
		b.bytes -= uint64(bytes)
	}
	return nil
}
