package analyzer

import (
	"fmt"
	"unsafe"

	"github.com/memtrace/memtrace/analyzer/report"
)

// What memtrace keeps of call sites and of live blocks grows with what the traced
// programs do: one that allocates from a new stack each time, or never frees,
// would fill it. So there is a room for each of the two, and each user's
// processes have at most three quarters of what the others' leave of it, so that
// something is always left for another (Choudhury and Hahne, 1998).

// A room is memory that is shared out, bytes.
type room struct {
	limit, used uint64 // limit 0: as much as is asked for
	owners      map[uint32]*owner
}

// An owner is a user in a room.
type owner struct {
	used   uint64
	full   bool   // of sites: it got its part, and gets no more
	stacks uint64 // that had no room
}

// nobody owns the stacks of processes that are not known yet.
const nobody = 1<<32 - 1

// of returns a user's part.
func (r *room) of(uid uint32) *owner {
	o := r.owners[uid]
	if o == nil {
		if r.owners == nil {
			r.owners = make(map[uint32]*owner)
		}
		o = &owner{}
		r.owners[uid] = o
	}
	return o
}

// claim takes bytes for an owner, where they are to be had.
func (r *room) claim(o *owner, bytes uint64) bool {
	if r == nil || r.limit == 0 {
		return true
	}
	others := min(r.used-o.used, r.limit)
	if o.used+bytes > (r.limit-others)/4*3 {
		return false
	}
	r.used += bytes
	o.used += bytes
	return true
}

// release gives bytes back.
func (r *room) release(o *owner, bytes uint64) {
	if r != nil && r.limit != 0 {
		r.used -= bytes
		o.used -= bytes
	}
}

// What is kept of each, bytes, with its entries in maps.
const (
	siteBytes  = uint64(unsafe.Sizeof(site{})) + 320 // its histograms, and its stack's number
	stackBytes = 112
	frameBytes = 8
)

// keeps claims room for a site or a stack of an image. An owner that was refused once gets
// no more, as nothing of this is ever given back.
func (a *Analyzer) keeps(m *image, bytes uint64) bool {
	if m.owner == nil {
		m.owner = a.detail.of(nobody)
	}
	if m.owner.full || !a.detail.claim(m.owner, bytes) {
		m.owner.full = true
		return false
	}
	return true
}

// newHeap returns an empty heap of one of a user's processes.
func (a *Analyzer) newHeap(uid uint32) *liveHeap {
	h := newLiveHeap(&a.keys)
	h.pool.room, h.pool.owner = &a.blocks, a.blocks.of(uid)
	return h
}

// shed is that so far; nil where all was kept.
func (a *Analyzer) shed() *report.Shed {
	s := report.Shed{Allocations: a.sites.beyond, Blocks: a.untracked}
	for _, o := range a.detail.owners {
		s.Stacks += o.stacks
	}
	if s == (report.Shed{}) {
		return nil
	}
	return &s
}

// shedWarnings says what was shed.
func shedWarnings(s *report.Shed) (out []string) {
	if s == nil {
		return nil
	}
	if s.Blocks != 0 {
		out = append(out, fmt.Sprintf("%d blocks are not tracked: no memory was left for the live heap (--memory)", s.Blocks))
	}
	if s.Allocations != 0 {
		out = append(out, fmt.Sprintf("%d allocations are counted under [all other sites], without a stack of their own: there are too many sites", s.Allocations))
	}
	if s.Stacks != 0 {
		out = append(out, fmt.Sprintf("%d stacks had no room (--memory): what they allocate is in all sums, and named by no site", s.Stacks))
	}
	return out
}
