package heapwalk

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// Judged says how claims were judged.
type Judged struct {
	Walks int           // of the heap
	Still bool          // no thread of the process has run meanwhile
	Took  time.Duration // of a processor's time
	Read  uint64        // bytes
}

// Judge says of each claim whether it is allocated, and sorts them by address. They must be blocks that were allocated before the call, each with
// the size that it was asked for last, and all later calls of the allocator
// that hand out such an address must be known to the caller. What it finds may
// have changed again as it returns.
//
// Freed is said of a block that was free at some instant of the call, and
// Allocated of one that was not, or was freed later in it:
//
//   - A block on a list of freed ones had the key of those as it was read.
//   - A block that is part of a free chunk, or of another block, is one that
//     the chunks, from one to the next, passed over. Where the process has run
//     meanwhile, two walks must agree on that: headers are read one after the
//     other, and a chunk may have become part of another in between.
//   - What is neither, or could not be gone through, stays Unknown.
//
// Errors are those of Walk.
func Judge(p *procfs.Process, o Options, claims []Claim) (Judged, error) {
	if o.Thread == 0 {
		o.Thread = p.PID()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	slices.SortFunc(claims, func(x, y Claim) int { return cmp.Compare(x.Addr, y.Addr) })
	j := judge{p: p, o: o, claims: claims}
	err := j.run()
	j.Took = threadTime() - began
	return j.Judged, err
}

// threadTime is the processor time that this thread has taken (clock_gettime(2)).
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // Linux always has it
	return time.Duration(t.Nano())
}

// judge is one Judge under way.
type judge struct {
	Judged
	p      *procfs.Process
	o      Options
	claims []Claim
}

func (j *judge) run() error {
	before := j.threads()
	passed, err := j.walk(func(c *Claim, v verdict) bool {
		c.State = v.state
		return v.passed
	})
	if err != nil {
		return err
	}
	if j.Still = j.o.Still || before != nil && slices.Equal(before, j.threads()); j.Still || passed == 0 {
		return nil
	}
	_, err = j.walk(func(c *Claim, v verdict) bool {
		if c.State == Freed && v.state != Freed {
			c.State = Unknown
		}
		return false
	})
	return err
}

// ranThread is a thread, and how it stood.
type ranThread struct {
	tid int
	procfs.TaskRan
}

// maxRanThreads is how many threads are looked at: more take longer than a second walk.
const maxRanThreads = 4096

// threads are all threads of the process, as long as none runs; nil: one does, or that can't be told.
func (j *judge) threads() []ranThread {
	tids, err := j.p.Tasks()
	if err != nil || len(tids) > maxRanThreads {
		return nil
	}
	out := make([]ranThread, 0, len(tids))
	for _, tid := range tids {
		ran, err := j.p.TaskRan(tid)
		if err != nil || !ran.Waits() {
			return nil
		}
		out = append(out, ranThread{tid, ran})
	}
	return out
}

// A verdict is what one walk says of a claim.
type verdict struct {
	state  State
	passed bool // Freed, as the walk passed over it
}

// walk walks the heap once and gives the verdict on each claim. It counts those for which say is true.
func (j *judge) walk(say func(*Claim, verdict) bool) (n int, err error) {
	m, a, err := openHeap(j.p, j.o)
	if err != nil {
		return 0, err
	}
	defer m.close()
	s := &heapWalk{m: m, a: a}
	a.params = m.findParams(a)
	err = s.walkArenas()
	if m.budget.spent {
		err = ErrTooMuch
	}
	if err != nil {
		return 0, fmt.Errorf("go through the heap of process %d: %w", j.p.PID(), err)
	}
	v := &judgement{heap: s.heap, m: m}
	for i := range j.claims {
		verdict, err := v.of(&j.claims[i])
		if err != nil {
			return n, fmt.Errorf("look at blocks of process %d: %w", j.p.PID(), err)
		}
		if say(&j.claims[i], verdict) {
			n++
		}
	}
	j.Walks++
	j.Read += m.read
	return n, nil
}

// judgement judges claims, whose addresses ascend, by a walk.
type judgement struct {
	heap  *Heap
	m     *memory
	block int // the first that is not below the last claim
	arena int // likewise
}

func (v *judgement) of(c *Claim) (verdict, error) {
	h := v.heap
	for v.block < h.blocks.n && h.blocks.at(v.block).Addr < c.Addr {
		v.block++
	}
	for v.arena < len(h.arenas) && h.arenas[v.arena].end <= c.Addr {
		v.arena++
	}
	inArena := v.arena < len(h.arenas) && h.arenas[v.arena].start <= c.Addr
	switch {
	case c.Addr%chunkAlign != 0:
		return verdict{}, nil
	case inArena && v.block < h.blocks.n && h.blocks.at(v.block).Addr == c.Addr:
		return v.ofBlock(c, h.blocks.at(v.block))
	case inArena && h.gaps[v.arena]:
		return verdict{}, nil
	case inArena:
		return verdict{Freed, true}, nil
	}
	return v.ofMapping(c)
}

// ofBlock judges a claim where a chunk begins that is no free one.
func (v *judgement) ofBlock(c *Claim, b *Block) (verdict, error) {
	h := v.heap
	_, own := slices.BinarySearchFunc(h.own, c.Addr, func(s span, addr uint64) int { return compareSpans(s, span{start: addr}) })
	switch {
	case b.cached(), own && len(h.keys) > 0:
		return verdict{Freed, false}, nil
	case !h.fits(b, c.Size):
		return verdict{}, nil // it is just being resized, or another one whose allocation is not known yet
	case h.Unlisted != 0 && b.Size() <= maxFast:
		return verdict{}, nil // it may be in a list that was not followed
	case !h.open.has(b):
		return verdict{Allocated, false}, nil
	case len(h.keys) == 0:
		return verdict{}, nil
	}
	var w [2]uint64
	if err := v.m.words(c.Addr, w[:]); err != nil || h.keys[w[1]] {
		return verdict{}, ignoreUnreadable(err)
	}
	return verdict{Allocated, false}, nil
}

// ofMapping judges a claim that lies in no arena that is known: it has a
// mapping of its own, or had one.
func (v *judgement) ofMapping(c *Claim) (verdict, error) {
	if c.Addr < headBytes {
		return verdict{}, nil
	}
	var head [2]uint64
	switch err := v.m.words(c.Addr-headBytes, head[:]); {
	case errors.Is(err, errUnreadable):
		return verdict{Freed, true}, nil
	case err != nil:
		return verdict{}, err
	}
	chunk, end := head[1]&^sizeBits, (c.Addr-headBytes+head[1]&^sizeBits)%pageBytes
	switch {
	case head[1]&sizeBits == isMapped && chunk >= c.Size && (end == 0 || end == pageBytes-headBytes):
		return verdict{Allocated, false}, nil
	case chunk < minChunk, chunk > maxSize:
		return verdict{Freed, true}, nil // no header: the mapping is another's now
	}
	return verdict{}, nil // a part of an arena that was not found, or it is being resized
}

func ignoreUnreadable(err error) error {
	if errors.Is(err, errUnreadable) {
		return nil
	}
	return err
}

// MayRead reports why the memory of a process can't be read; nil where it can. Errors: procfs.ErrGone, unix.EPERM.
func MayRead(p *procfs.Process) error {
	m, err := openMemory(p, p.PID(), false)
	if err != nil {
		return err
	}
	defer m.close()
	for i := range m.maps {
		if v := &m.maps[i]; v.perms&procfs.Read != 0 && v.kind == procfs.KindFile {
			_, err := m.readv(make([]byte, 8), []unix.RemoteIovec{{Base: uintptr(v.start), Len: 8}})
			if errors.Is(err, unix.EFAULT) {
				return nil // it is allowed
			}
			return err
		}
	}
	return nil
}
