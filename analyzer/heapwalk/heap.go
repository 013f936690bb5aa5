package heapwalk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// Sum counts blocks.
type Sum struct{ Count, Bytes uint64 }

func (s *Sum) add(bytes uint64) { s.Count++; s.Bytes += bytes }

// Heap is a process's heap as one walk found it. Sizes are bytes.
type Heap struct {
	Groups []Group

	Arenas   int
	Live     Sum    // allocated blocks: all that All yields
	Mapped   Sum    // those of them with a mapping of their own
	Cached   Sum    // freed blocks that threads or arenas keep for quick reuse
	Free     uint64 // free chunks and the rest of the heap that was never given out
	System   uint64 // what glibc has from the kernel for its arenas, by its own count
	Covered  uint64 // memory of arenas that was gone through
	Skipped  uint64 // and that could not be: overwritten, of others, or changing
	Unfound  Sum    // blocks with a mapping of their own that glibc counts and that were not found
	Unlisted int    // arenas some of whose lists of freed blocks could not be followed

	Read        uint64
	Took        time.Duration
	LongestStep time.Duration

	// InUse is what glibc's mallinfo2 calls uordblks: chunks that are not free,
	// cached ones and headers included, mappings not.
	InUse uint64

	blocks blockList
	free   []zone
	own    []span          // the allocator's own records
	keys   map[uint64]bool // second words of cached blocks
	open   openLists       // threads' lists that could not be followed, whose blocks have a key
	blind  openLists       // and those whose blocks have none that is known
	arenas []span          // where chunk follows on chunk, ascending
	gaps   []bool          // of those: not all of it could be gone through
}

// A zone is memory without blocks, and what it holds.
type zone struct {
	span
	sum uint64
}

// All yields the allocated blocks, ascending.
func (h *Heap) All(yield func(b Block) bool) {
	for _, piece := range h.blocks.pieces {
		for _, b := range piece {
			if !b.cached() && !yield(b) {
				return
			}
		}
	}
}

// Options of a Walk or of Judge.
type Options struct {
	// Thread is one that has the process's memory; 0 means the first.
	Thread int
	// Still says that the process stands still meanwhile.
	Still bool
	// Symbol names the object that an address lies in, as its file has it; ""
	// where it does not know. It may be nil.
	Symbol func(addr uint64) string
	// Lost says that allocations may not be known to the caller of Judge: where a block of another size is, the one
	// that it claims was freed.
	Lost bool
}

// Walk goes through the heap of a process. Errors: ErrNoArena where the process
// has no heap of glibc's, procfs.ErrGone, unix.EPERM.
func Walk(p *procfs.Process, o Options) (*Heap, error) {
	if o.Thread == 0 {
		o.Thread = p.PID()
	}
	began := time.Now()
	m, a, err := openHeap(p, o)
	if err != nil {
		return nil, err
	}
	defer m.close()
	a.params = m.findParams(a)
	s := &heapWalk{m: m, a: a, groups: newGrouper(m, o.Symbol)}
	err = s.walk()
	if m.budget.spent {
		err = ErrTooMuch // what could not be read then was taken for memory that is gone
	}
	if err != nil {
		return nil, fmt.Errorf("go through the heap of process %d: %w", p.PID(), err)
	}
	s.heap.Took, s.heap.Read, s.heap.LongestStep = time.Since(began), m.read, max(m.longest, m.pages.LongestCall())
	return s.heap, nil
}

// heapLooks is how often a heap is looked for that changes meanwhile. Of a program whose threads allocate all the time
// one look in 1,300 finds parts that don't fit together.
const heapLooks = 10

// openHeap finds a process's arenas. All looks share one budget, as the target may make each fail.
func openHeap(p *procfs.Process, o Options) (*memory, *allocator, error) {
	var rest budget
	for looks := 1; ; looks++ {
		m, err := openMemory(p, o.Thread, o.Still)
		if err != nil {
			return nil, nil, err
		}
		if looks > 1 {
			m.budget = rest
		}
		a, err := m.findArenas()
		rest = m.budget
		switch {
		case m.budget.spent:
			err = fmt.Errorf("look for the heap of process %d: %w", p.PID(), ErrTooMuch)
		case err == nil:
			return m, a, nil
		}
		m.close()
		if !m.changing || m.budget.spent || o.Still || looks == heapLooks {
			return nil, nil, err
		}
	}
}

// heapWalk is one Walk under way.
type heapWalk struct {
	m      *memory
	a      *allocator
	groups *grouper // nil: which blocks there are is all that is asked
	heap   *Heap
	tables []candidate
}

// walkArenas goes through the arenas alone, for which blocks there are.
func (s *heapWalk) walkArenas() error {
	s.heap = &Heap{Arenas: len(s.a.arenas)}
	for _, r := range s.m.regions(s.a) {
		if err := s.region(r); err != nil {
			return err
		}
	}
	if err := s.lists(); err != nil {
		return err
	}
	s.records()
	return nil
}

func (s *heapWalk) walk() error {
	h := &Heap{Arenas: len(s.a.arenas)}
	s.heap = h
	regions := s.m.regions(s.a)
	mapped, known, err := s.m.mappedChunks(s.a, regions)
	if err != nil {
		return err
	}
	if !known && s.a.params != nil {
		h.Unfound = Sum{s.a.params.mmaps, s.a.params.mapped}
	}
	for _, r := range regions {
		for len(mapped) > 0 && mapped[0].addr < r.start {
			s.addMapped(mapped[0])
			mapped = mapped[1:]
		}
		if err := s.region(r); err != nil {
			return err
		}
	}
	for _, c := range mapped {
		s.addMapped(c)
	}
	if err := s.lists(); err != nil {
		return err
	}
	s.records()
	h.Groups = s.groups.all
	s.sum()
	return nil
}

// region goes through one region.
func (s *heapWalk) region(r region) error {
	v, err := s.m.view(r.span)
	if err != nil {
		return err
	}
	w := walker{m: s.m, a: s.a, r: r, v: v}
	w.emit = func(c chunk) error {
		if !c.free {
			s.add(c, r.certain && c.addr == r.start)
			return nil
		}
		s.heap.Free += c.size
		return s.addFree(v, c.zone())
	}
	err = w.walk()
	if err != nil && !errors.Is(err, errUnreadable) {
		return err
	}
	s.heap.InUse += r.header + w.posts*fencepost
	s.heap.Skipped += w.skipped
	s.heap.arenas, s.heap.gaps = append(s.heap.arenas, r.span), append(s.heap.gaps, w.skipped != 0 || err != nil)
	s.heap.Covered += r.end - r.start - w.skipped
	return nil
}

// zone is what of a free chunk only the allocator writes to: all but its links.
func (c chunk) zone() span {
	const links = 4 * 8
	return span{min(c.block()+links, c.addr+c.size), c.addr + c.size}
}

func (s *heapWalk) addFree(v *view, z span) error {
	if s.groups == nil || z.end-z.start < 8 {
		return nil
	}
	sum, err := v.hash(z)
	if errors.Is(err, errUnreadable) {
		return nil // it is being given back
	}
	s.heap.free = append(s.heap.free, zone{z, sum})
	return err
}

// add adds a chunk in use; first: of those of a region.
func (s *heapWalk) add(c chunk, first bool) {
	s.heap.InUse += c.size
	if layoutOf(c.size).lists > 0 {
		s.tables = append(s.tables, candidate{c, first})
	}
	group := uint32(0)
	if s.groups != nil {
		group = s.groups.of(c.usable(), c.head)
	}
	s.heap.blocks.add(newBlock(c.block(), c.usable(), group))
}

func (s *heapWalk) addMapped(c mappedChunk) {
	s.heap.Mapped.add(c.usable())
	var w [headWords]uint64
	if s.m.words(c.block(), w[:]) != nil {
		w = head{}
	}
	s.heap.blocks.add(newBlock(c.block(), c.usable(), s.groups.of(c.usable(), w)))
}

// lists finds out which blocks are freed although they look allocated.
func (s *heapWalk) lists() error {
	l := &lister{m: s.m, blocks: &s.heap.blocks, keys: make(map[uint64]bool)}
	if err := l.threads(s.tables); err != nil {
		return err
	}
	for i := range s.a.arenas {
		x := &s.a.arenas[i]
		whole, err := l.fastbins(s.a, x)
		if err != nil {
			return err
		}
		if !whole {
			s.heap.Unlisted++
		}
	}
	s.heap.keys, s.heap.open, s.heap.blind = l.keys, l.open, l.blind
	s.heap.InUse -= l.fast
	slices.Sort(l.tables)
	for _, block := range slices.Compact(l.tables) {
		if i, ok := s.heap.blocks.find(block); ok {
			b := s.heap.blocks.at(i)
			s.heap.own = append(s.heap.own, span{block, block + b.Size()})
		}
	}
	return nil
}

// records notes where the allocator's own records are, which point to free
// memory.
func (s *heapWalk) records() {
	for i := range s.a.arenas {
		x := &s.a.arenas[i]
		s.heap.System += x.systemMem
		s.heap.own = append(s.heap.own, span{x.addr, x.addr + s.a.size()})
	}
	slices.SortFunc(s.heap.own, func(x, y span) int { return cmp.Compare(x.start, y.start) })
}

// sum adds up what is allocated; freed blocks become free memory.
func (s *heapWalk) sum() {
	h := s.heap
	for _, piece := range h.blocks.pieces {
		for _, b := range piece {
			if !b.cached() {
				h.Live.add(b.Size())
				h.Groups[b.Group()].Live.add(b.Size())
				continue
			}
			h.Cached.add(b.Size())
			h.free = append(h.free, s.cachedZone(b))
		}
	}
	slices.SortFunc(h.free, func(x, y zone) int { return cmp.Compare(x.start, y.start) })
}

// cachedZone is what of a cached block nobody writes to: all but link and key.
func (s *heapWalk) cachedZone(b Block) zone {
	z := zone{span: span{b.Addr + 16, b.Addr + b.Size()}}
	if z.end < z.start+8 {
		z.end = z.start
		return z
	}
	words := make([]uint64, min((z.end-z.start)/8, 256))
	if s.m.words(z.start, words) != nil {
		return z
	}
	for _, w := range words {
		z.sum = (z.sum ^ w) * mixer
	}
	return z
}
