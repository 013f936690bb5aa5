package analyzer

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// pendingFaults holds the page faults of a process whose block is not known
// yet. The live heap finds blocks by their first address only, and calloc
// touches its block before the event of the allocation comes. So a fault waits
// until the block around it is freed, or until the next pass over all live
// blocks. A fault is credited to the first block found to cover its address.
type pendingFaults struct {
	byPage map[uint64][]pendingFault
	count  int
	pass   uint32       // number of the present pass
	filter *faultFilter // nil until the first fault
}

const (
	maxPending = 1 << 16
	faultPage  = 12
)

// A faultFilter has a bit for each hash of a page with pending faults, so that most blocks
// that are freed need no look-up. It has room for what a program that grows fast faults in between two passes.
type faultFilter [1 << (faultFilterBits - 6)]uint64

const faultFilterBits = 16

// A pendingFault is the address of a fault and the pass before which it came.
type pendingFault struct {
	addr uint64
	pass uint32
}

func faultBit(page uint64) (word int, bit uint64) {
	h := page * 0x9e3779b97f4a7c15 >> (64 - faultFilterBits)
	return int(h >> 6), 1 << (h & 63)
}

func (f *faultFilter) set(page uint64) {
	word, bit := faultBit(page)
	f[word] |= bit
}

func (f *faultFilter) mayHave(page uint64) bool {
	word, bit := faultBit(page)
	return f[word]&bit != 0
}

// add notes a fault at addr. Where too many wait it drops them all and returns
// how many those were.
func (f *pendingFaults) add(addr uint64) (dropped int) {
	if f.count >= maxPending {
		dropped = f.count
		f.clear()
	}
	if f.byPage == nil {
		f.byPage = make(map[uint64][]pendingFault)
		f.filter = new(faultFilter)
	}
	page := addr >> faultPage
	f.byPage[page] = append(f.byPage[page], pendingFault{addr, f.pass})
	f.filter.set(page)
	f.count++
	return dropped
}

func (f *pendingFaults) clear() {
	if f.filter != nil {
		clear(f.byPage)
		*f.filter = faultFilter{}
	}
	f.count = 0
}

// take returns the number of faults in a block and forgets them.
func (f *pendingFaults) take(addr, size uint64) uint64 {
	if f.count == 0 || size == 0 {
		return 0
	}
	first, last := addr>>faultPage, (addr+size-1)>>faultPage
	if last < first { // wraps around: no real block
		return 0
	}
	if last-first < uint64(len(f.byPage)) {
		var n uint64
		for page := first; page <= last; page++ {
			if f.filter.mayHave(page) {
				n += f.takePage(page, addr, size)
			}
		}
		return n
	}
	var n uint64
	for page := range f.byPage {
		if page >= first && page <= last {
			n += f.takePage(page, addr, size)
		}
	}
	return n
}

func (f *pendingFaults) takePage(page, addr, size uint64) uint64 {
	waiting, ok := f.byPage[page]
	if !ok {
		return 0
	}
	rest := slices.DeleteFunc(waiting, func(p pendingFault) bool { return p.addr-addr < size })
	n := len(waiting) - len(rest)
	f.count -= n
	if len(rest) == 0 {
		delete(f.byPage, page)
	} else {
		f.byPage[page] = rest
	}
	return uint64(n)
}

// endPass drops the faults that a whole pass over the live blocks found no
// block for, unless they came after the pass before: their allocation may not
// have returned yet. It returns how many it dropped.
func (f *pendingFaults) endPass() int {
	before := f.count
	if f.filter != nil {
		*f.filter = faultFilter{}
	}
	for page, waiting := range f.byPage {
		rest := slices.DeleteFunc(waiting, func(p pendingFault) bool { return p.pass != f.pass })
		f.count -= len(waiting) - len(rest)
		if len(rest) == 0 {
			delete(f.byPage, page)
			continue
		}
		f.byPage[page] = rest
		f.filter.set(page)
	}
	f.pass++
	return before - f.count
}

// drop forgets all faults, as their memory is gone.
func (f *pendingFaults) drop(e *report.Events) {
	e.FaultUnattributed += uint64(f.count)
	f.clear()
}
