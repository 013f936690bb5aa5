//go:build linux && !viewer

package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// Options of a Scan.
type Options struct {
	// Threads are all threads of the process, where it stands still. Nil: it runs.
	Threads []Thread
	// Registers returns the registers of all threads of a process that runs; it
	// is called twice. Nil: they are not read.
	Registers func() []uint64
	// Pending returns blocks that are being handed out: nothing but the allocator
	// has a pointer to them yet. They count as held. It is called as Registers is, and may be nil.
	Pending func() []uint64
	// AllSeen says that every block of the process is among those given, so
	// that the rest of glibc's memory holds nothing but what was freed.
	AllSeen bool
	// Mapped yields all memory that the process mapped other than for its
	// allocators, which are all known. Nil: neither is known.
	Mapped func(yield func(start, end uint64) bool)
	// Unsure says that what lies among blocks may be blocks that are not known, or
	// allocators' own memory: how much of the roots that is, is counted.
	Unsure bool
	// Headers says that blocks are given out by functions of the program's own, too,
	// which may keep pointers in front of them.
	Headers bool
	// Mimalloc and Scudo say that they are among those allocators.
	Mimalloc, Scudo bool
	// Allocators are the files of libraries that hold nothing but an allocator.
	Allocators []string
	// Free yields, ascending, memory outside of blocks that is known to hold
	// nothing but what was freed. It is no root. It may be nil.
	Free func(yield func(start, end uint64) bool)
	// Revived is called once all else of a running process has been followed,
	// and yields memory, of Free or elsewhere, that was given out meanwhile: it
	// is a root after all. It may be nil.
	Revived func(yield func(start, end uint64) bool)
	// Slack is by how much at most the sizes of the blocks are larger than what
	// was asked for, in bytes.
	Slack   uint64
	Workers int // goroutines; 0 means one a core
	// Wanted ends with the Scan's use: it then fails, soon. Nil: it is of use to its end.
	Wanted context.Context
}

// Result is what a Scan found. Sizes are bytes.
type Result struct {
	Sums [4]Sum // by Kind
	// ByRoots are the reachable blocks by the first kind of roots that leads to them.
	ByRoots [RootKinds]Sum
	Leaks   []Leak // all blocks but the reachable ones, by address
	Skipped int    // blocks at addresses that no allocator gives; they are in no sum

	Roots   uint64 // memory read outside of blocks
	Own     uint64 // memory outside of blocks that is the allocators' own, and no root
	Unsure  uint64 // of Roots: what lies between blocks, and may be the allocators' own
	Read    uint64 // all that was read, over all passes
	Unread  uint64 // could not be read; nothing there was followed
	Swapped uint64 // was in swap, and was read from there
	Began   time.Time
	Took    time.Duration
	MarkCPU time.Duration // processor time of the pass that reads all memory and marks what is reachable
	// LongestStep is the longest call that read the target's memory or page
	// map: the target's mmap lock was never held for longer by one of them.
	LongestStep time.Duration
	Memory      uint64 // that the scan itself took
	Assumed     int    // pointers into blocks taken for ones to their start, as there were too many
}

// Leak is a block that is not reachable.
type Leak struct {
	Addr, Size uint64
	Site       uint32
	Kind       Kind
}

// Scan finds out which of a process's live blocks are still reachable. The
// blocks must be those of one instant shortly before; a block that is freed
// meanwhile may be called leaked, one that is moved about while the process
// runs on, too: see Agree.
func Scan(p *procfs.Process, blocks Blocks, o Options) (Result, error) {
	c := &scan{p: p, options: o}
	defer c.close()
	c.Began = time.Now()
	defer c.whileWanted()()
	if err := c.prepare(blocks); err != nil {
		return Result{}, fmt.Errorf("scan the memory of process %d: %w", p.PID(), err)
	}
	began := cpuTime()
	c.reachable()
	c.MarkCPU = cpuTime() - began
	c.possible()
	c.leaked()
	if c.mem.gone.Load() {
		return Result{}, fmt.Errorf("scan the memory of process %d: %w", p.PID(), c.whyGone())
	}
	c.finish(blocks)
	return c.Result, nil
}

// whileWanted has the scan read nothing any more once it isn't wanted, until stop.
func (c *scan) whileWanted() (stop func() bool) {
	if c.options.Wanted == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(c.options.Wanted, func() { c.mem.gone.Store(true) })
}

// cpuTime is the processor time that this process took, which other load on the
// machine does not add to.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// scan is one Scan under way.
type scan struct {
	Result
	p       *procfs.Process
	options Options
	index   index
	space   space
	mem     memory
	marker  *marker
	stacks  []stack
	cached  []cachedStack
	inert   []uint32   // blocks that are held and hold nothing, ascending
	later   []interior // in roots that are not followed yet
	tried   []interior // not as good as ones to the start
	held    bitmap     // reachable
	kept    bitmap     // reachable or possible

	counted bitmap // reachable blocks that are in ByRoots, or of the first kind of roots
}

func (c *scan) prepare(blocks Blocks) error {
	if err := c.index.build(blocks); err != nil {
		return err
	}
	tid, err := c.thread()
	if err != nil {
		return err
	}
	c.mem.tid, c.mem.still = tid, c.options.Threads != nil
	if err := c.space.load(c.p, &c.mem, &c.index, &c.options); err != nil {
		return err
	}
	c.marker, err = newMarker(&c.index, &c.space, &c.mem, workersFor(c.options.Workers))
	if err != nil {
		return err
	}
	c.stacks = c.space.stacks(c.p, c.options.Threads)
	mapped := c.mapped()
	c.space.findKinds(&c.mem, &c.index, c.stackPointers(), c.options.Threads, mapped)
	c.marker.slack, c.marker.mimalloc, c.marker.scudo = c.options.Slack, c.options.Mimalloc, c.options.Scudo
	own := c.ownMemory()
	c.marker.own = own
	if c.options.Unsure {
		c.marker.unsure = c.amongBlocks().without(own).without(mapped)
	}
	dead := append([]zone(nil), own...)
	for _, s := range c.stacks {
		dead = append(dead, s.dead)
	}
	dead = append(dead, c.cachedAsDead()...)
	if c.options.Free != nil {
		for start, end := range c.options.Free {
			dead = append(dead, zone{start, end})
		}
	}
	c.marker.dead = joined(dead)
	return nil
}

// thread returns a thread that has the process's memory.
func (c *scan) thread() (int, error) {
	if len(c.options.Threads) > 0 {
		return c.options.Threads[0].TID, nil
	}
	st, err := c.p.Stat()
	if err != nil || !st.Zombie() {
		return c.p.PID(), err
	}
	tids, err := c.p.Tasks()
	if err != nil {
		return 0, err
	}
	return tids[len(tids)-1], nil // the first thread has ended, and others not
}

func (c *scan) close() {
	if c.marker != nil {
		c.marker.close()
	}
	c.index.area.close()
}

// whyGone says why the memory could not be read any more, or was not to be.
func (c *scan) whyGone() error {
	if w := c.options.Wanted; w != nil && w.Err() != nil {
		return context.Cause(w)
	}
	if st, err := c.p.Stat(); err != nil || st.Zombie() {
		return procfs.ErrGone
	}
	return errors.New("process_vm_readv is not permitted: run as root or as the process's own user, or as memtrace doctor says (it takes CAP_SYS_PTRACE)")
}

// reachable follows pointers to the starts of blocks from all roots.
func (c *scan) reachable() {
	m := c.marker
	m.startOnly = true
	m.sweep()
	for kind := range RootKinds {
		c.rootsOf(kind)
	}
	for _, w := range m.workers {
		c.Roots += w.rootBytes
		c.Own += w.ownBytes
		c.Unsure += w.unsureBytes
	}
	if c.options.Threads == nil {
		for _, z := range slices.Concat(revived(c.stacks, c.p), c.reusedStacks()) {
			m.live(z)
			m.workers[0].zone(z)
		}
		c.revive()
		c.now()
		m.drain()
		c.recognise()
		c.countTo(Registers)
	}
	c.recognise()
	c.countTo(Stacks)
	c.keepVectors()
	c.countTo(ThreadLocal)
	c.restoreNotes()
	c.held = append(bitmap(nil), m.seen...)
}

// revive follows what has come into use since the scan began.
func (c *scan) revive() {
	if c.options.Revived == nil {
		return
	}
	pm, err := c.p.OpenPagemap()
	if err != nil {
		return // it has ended, which is noticed elsewhere
	}
	defer func() {
		c.mem.held(pm.LongestCall())
		_ = pm.Close()
	}()
	pm.Around(c.mem.call)
	w := c.marker.workers[0]
	for start, end := range c.options.Revived {
		_ = pm.Runs(start, end, func(from, to uint64, _ procfs.PageState) {
			w.fresh(zone{max(from, start), min(to, end)})
		})
	}
}

// fresh follows the words of a zone, all of whose pages are there.
func (w *worker) fresh(z zone) {
	for at := z.start; at < z.end; {
		win := window{addr: at &^ (winBytes - 1), present: ^uint64(0)}
		to := min(z.end, win.addr+winBytes)
		w.buf.addr = 0 // what it holds may be of before
		w.buf.fill(w.mem, &win, pageMask(at-win.addr, to-win.addr))
		w.words(w.buf, at, to, noBlock)
		at = to
	}
}

// now follows the registers of a process that runs, and what is being handed
// out, as of now.
func (c *scan) now() {
	for _, read := range []func() []uint64{c.options.Registers, c.options.Pending} {
		if read == nil {
			continue
		}
		for words := range slices.Chunk(read(), winBytes/8) {
			c.marker.workers[0].registers(words)
		}
	}
}

// registers follows the registers of a thread.
func (w *worker) registers(words []uint64) {
	b := w.far
	b.addr, b.pages = 0, 0
	for i, v := range words {
		putWord(b, i, v)
	}
	w.aligned(b, 0, uint64(len(words))*8, noBlock)
}

// zone follows the words of a zone.
func (w *worker) zone(z zone) {
	for at := z.start; at < z.end; {
		to := min(z.end, at&^(winBytes-1)+winBytes)
		if win := w.s.at(at); win != nil {
			w.buf.addr = 0
			w.buf.fill(w.mem, win, pageMask(at-win.addr, to-win.addr))
			w.words(w.buf, at, to, noBlock)
		}
		at = to
	}
}

// recognise follows the pointers into blocks that are as good as ones to their
// start, until there are no more. The other ones are kept, and so are those in
// roots whose turn has not come.
func (c *scan) recognise() {
	m := c.marker
	m.workers[0].notes = append(m.workers[0].notes, c.later...)
	c.later = c.later[:0]
	for {
		notes, any := m.takeNotes(), false
		for _, n := range notes {
			switch {
			case m.seen.has(n.i):
			case n.kind > m.stage:
				c.later = append(c.later, n)
			case m.asStart(n):
				any = true
				m.workers[0].found(n.i, n.start)
			default:
				c.tried = append(c.tried, n)
			}
		}
		if !any {
			return
		}
		m.drain()
	}
}

// restoreNotes leaves in the notes what recognise kept.
func (c *scan) restoreNotes() {
	w := c.marker.workers[0]
	w.notes = append(append(w.notes, c.tried...), c.later...)
	c.tried, c.later = nil, nil
}

// possible follows what is left: pointers into blocks, then such as are not
// aligned; with those found, everything that they lead to.
func (c *scan) possible() {
	m := c.marker
	m.startOnly = false
	for _, n := range m.takeNotes() {
		m.workers[0].found(n.i, n.start)
	}
	m.drain()
	m.edges.open = false
	if m.seen.count() < c.index.count {
		m.unaligned, m.empty = true, c.emptyArrays()
		for addr, i := range c.index.all {
			if _, inert := slices.BinarySearch(c.inert, i); m.seen.has(i) && !inert {
				m.workers[0].follow(i, addr)
			}
		}
		m.roots()
		if m.empty != nil {
			for _, t := range c.options.Threads {
				m.workers[0].registers(t.Words)
			}
			c.now()
			c.settleEmpty()
		}
		m.unaligned = false
	}
	c.kept = append(bitmap(nil), m.seen...)
}

// leaked tells those leaked blocks that others lead to from those that none
// does. Of blocks that lead to each other in a circle, the one with the lowest
// address counts as one that none leads to, as in Valgrind.
func (c *scan) leaked() {
	m := c.marker
	if m.seen.count() == c.index.count {
		return
	}
	m.quiet = true // first, which are pointed to at all
	c.followLeaked(func(uint32) bool { return true })
	m.drain()
	m.quiet = false
	pointed := append(bitmap(nil), m.seen...)
	copy(m.seen, c.kept)
	c.followLeaked(func(i uint32) bool { return !pointed.has(i) })
	m.drain()
	for addr, i := range c.index.all {
		if !pointed.has(i) || m.seen.has(i) {
			continue
		}
		m.workers[0].follow(i, addr)
		m.workers[0].drainAlone()
		m.seen.drop(i)
	}
}

// followLeaked makes the leaked blocks that fn chooses pending.
func (c *scan) followLeaked(fn func(i uint32) bool) {
	w := c.marker.workers[0]
	for addr, i := range c.index.all {
		if !c.kept.has(i) && fn(i) {
			w.follow(i, addr)
		}
	}
}

// drainAlone is drain for little work.
func (w *worker) drainAlone() {
	for !w.mem.gone.Load() {
		n, ok := w.claim()
		if !ok {
			return
		}
		w.buf.addr = 0 // what it holds may be of long ago
		w.pendingIn(n)
	}
}

// finish sums up, and lists the leaks with their sites.
func (c *scan) finish(blocks Blocks) {
	for addr, i := range c.index.all {
		k := c.kind(i)
		size := c.index.size(i)
		c.Sums[k].Count++
		c.Sums[k].Bytes += size
		if k != Reachable {
			c.Leaks = append(c.Leaks, Leak{addr, size, 0, k})
		}
	}
	c.countRest()
	c.findSites(blocks)
	c.Skipped = c.index.skipped
	c.Swapped = c.space.swapped
	c.Read, c.Unread = c.mem.read.Load(), c.mem.failed.Load()
	c.LongestStep = time.Duration(c.mem.longest.Load())
	c.Memory = c.index.memory() + uint64(5*len(c.held)*8) + c.marker.edges.memory() + uint64(len(c.space.windows))*24
	for _, w := range c.marker.workers {
		c.Assumed += w.assumed
	}
	c.Took = time.Since(c.Began)
}

// findSites looks the leaks' sites up. The index does without them, as most
// blocks are no leaks.
func (c *scan) findSites(blocks Blocks) {
	if len(c.Leaks) == 0 {
		return
	}
	blocks(func(addr, _ uint64, site uint32) bool {
		n, ok := slices.BinarySearchFunc(c.Leaks, addr, func(l Leak, addr uint64) int { return cmp.Compare(l.Addr, addr) })
		if ok {
			c.Leaks[n].Site = site
		}
		return true
	})
}

func (c *scan) kind(i uint32) Kind {
	switch {
	case c.held.has(i):
		return Reachable
	case c.kept.has(i):
		return Possible
	case c.marker.seen.has(i):
		return Indirect
	}
	return Definite
}
