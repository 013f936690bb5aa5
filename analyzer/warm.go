package analyzer

import (
	"math/bits"

	"github.com/memtrace/memtrace/tracer/event"
)

const (
	// warmEvents is how many events are looked ahead: more than the cache
	// misses that a core can have under way, few enough to stay in its cache.
	warmEvents = 32
	// warmFrom is the size of a heap, in blocks, that a core's cache no longer holds.
	warmFrom = 1 << 14
)

// A warmup is what is looked up ahead of a few events.
type warmup struct {
	process [warmEvents]*process // nil: not known
	hash    [warmEvents]uint64   // of the event's address, in the process's heap
	segs    [warmEvents]*segment
	sites   [warmEvents]*site // of the block that is to begin or to end
}

// These stand for what an empty heap has none of, and for what is not known yet.
var (
	noSegment segment
	noSite    site
)

// lookAhead finds the processes and hashes of events, at most warmEvents, and
// brings into the cache what they are going to need. An event waits for several
// reads of memory in turn (directory, tags, slot, site); here those of all events
// are under way together, which takes about as long as for one.
func (a *Analyzer) lookAhead(w *warmup, events []event.Event) {
	n, first, several := len(events), a.process(events[0].PID), false
	for i := range events {
		p := first
		if events[i].PID != events[0].PID {
			p, several = a.process(events[i].PID), true
		}
		w.process[i] = p
		if p != nil {
			w.hash[i] = p.heap.hash(events[i].Addr)
		}
	}
	if !several && (first == nil || first.heap.count < warmFrom) {
		return
	}
	w.findSegments(n)
	a.findSites(w, events)
	a.sink += w.touchSites(n)
}

func (w *warmup) findSegments(n int) {
	for i, p := range w.process[:n] {
		w.segs[i] = &noSegment
		if p != nil && p.heap.count != 0 {
			w.segs[i] = p.heap.segmentOf(w.hash[i])
		}
	}
}

// findSites finds the site of a new block by its stack, where the process has lately had
// that, and of other events' by the block at their address.
func (a *Analyzer) findSites(w *warmup, events []event.Event) {
	for i := range events {
		e, p := &events[i], w.process[i]
		id := w.segs[i].likelySite(w.hash[i])
		if e.Kind == event.Alloc && p != nil && p.image.recent != nil {
			id = p.image.recent[recentIndex(e.Stack)].site
		}
		w.sites[i] = &noSite
		if uint32(id) < a.sites.used {
			w.sites[i] = a.sites.at(id)
		}
	}
}

// likelySite is the site of the block of a hash; if there is none, of any.
func (s *segment) likelySite(hash uint64) siteID {
	g := homeOf(hash)
	diff := s.tags[g] ^ tagOf(hash)
	m := (diff - lowBytes) &^ diff & highBytes
	v := &s.slots[(g*groupSlots+uint(bits.TrailingZeros64(m|1<<63)>>3))%segSlots]
	return siteID(v.siteTime >> timeLow)
}

// touchSites returns a value that depends on all that was read, so that the
// reads are made.
func (w *warmup) touchSites(n int) (sum uint64) {
	for _, s := range w.sites[:n] {
		sum += s.liveCount + s.lifetimes.First() + s.sizes.First()
	}
	return sum
}
