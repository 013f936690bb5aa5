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

// Judge says of each claim whether it is allocated, and sorts them by address.
// They must be blocks that were allocated before the call, each with the size
// that it was asked for last, and all later calls of the allocator that hand
// out such an address must be known to the caller (but for Options.Lost). What
// it finds may have changed again as it returns.
//
// Freed is said of a block that was free at some instant of the call, and
// Allocated of one that was not, or was freed later in it:
//
//   - A block on a list of freed ones had the key of those as it was read.
//     Where they have none, the process must not have run meanwhile.
//   - A block that is part of a free chunk, or of another block, is one that
//     the chunks, from one to the next, passed over. Where the process has run
//     meanwhile, two walks must agree on that: headers are read one after the
//     other, and a chunk may have become part of another in between.
//   - A block in no arena is gone where nothing is mapped any more.
//   - What is neither, or could not be gone through, stays Unknown.
//
// Errors are those of Walk; what became of the claims is then not known.
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
	passed := false
	var unproven []*Claim
	err := j.walk(func(c *Claim, v verdict) {
		c.State = v.state
		passed = passed || v.passed
		if v.unproven {
			unproven = append(unproven, c)
		}
	})
	if err != nil {
		return err
	}
	if j.Still = j.o.Still || before != nil && slices.Equal(before, j.threads()); j.Still {
		return nil
	}
	for _, c := range unproven {
		c.State = Unknown
	}
	if !passed {
		return nil
	}
	return j.walk(func(c *Claim, v verdict) {
		if c.State == Freed && v.state != Freed {
			c.State = Unknown
		}
	})
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
	state    State
	passed   bool // Freed, as the walk passed over it
	unproven bool // Freed only if the process has not run meanwhile
}

// walk walks the heap once and says the verdict on each claim.
func (j *judge) walk(say func(*Claim, verdict)) error {
	m, a, err := openHeap(j.p, j.o)
	if err != nil {
		return err
	}
	defer m.close()
	s := &heapWalk{m: m, a: a}
	a.params = m.findParams(a)
	err = s.walkArenas()
	if m.budget.spent {
		err = ErrTooMuch
	}
	if err != nil {
		return fmt.Errorf("go through the heap of process %d: %w", j.p.PID(), err)
	}
	v := &judgement{heap: s.heap, m: m, lost: j.o.Lost}
	if err := v.all(j.claims, say); err != nil {
		return fmt.Errorf("look at blocks of process %d: %w", j.p.PID(), err)
	}
	j.Walks++
	j.Read += m.read
	return nil
}

// judgement judges claims, whose addresses ascend, by a walk.
type judgement struct {
	heap  *Heap
	m     *memory
	lost  bool // Options.Lost
	block int  // the first that is not below the last claim
	arena int  // likewise
}

// all says the verdict on each claim. It fails where some of them could not be looked at for want of budget.
func (v *judgement) all(claims []Claim, say func(*Claim, verdict)) error {
	for i := range claims {
		verdict, err := v.of(&claims[i])
		if err != nil {
			return err
		}
		say(&claims[i], verdict)
	}
	if v.m.budget.spent {
		return ErrTooMuch
	}
	return nil
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
		return verdict{state: Freed, passed: true}, nil
	}
	return v.ofMapping(c)
}

// ofBlock judges a claim where a chunk begins that is no free one.
func (v *judgement) ofBlock(c *Claim, b *Block) (verdict, error) {
	h := v.heap
	_, own := slices.BinarySearchFunc(h.own, c.Addr, func(s span, addr uint64) int { return compareSpans(s, span{start: addr}) })
	switch {
	case b.cached():
		return verdict{state: Freed, unproven: b.unproven()}, nil
	case own:
		return verdict{state: Freed, unproven: len(h.keys) == 0}, nil
	case !h.fits(b, c.Size):
		return v.another(), nil
	case b.unproven(), h.blind.has(b), h.Unlisted != 0 && b.Size() <= maxFast:
		return verdict{}, nil // it may be in a list that was not followed, or whose beginning may be none
	case !h.open.has(b):
		return verdict{state: Allocated}, nil
	}
	var w [2]uint64
	if err := v.m.words(c.Addr, w[:]); err != nil || h.keys[w[1]] {
		return verdict{}, ignoreUnreadable(err)
	}
	return verdict{state: Allocated}, nil
}

// another is the verdict on a claim where a block of another size is: it is just being resized, or was freed, and the
// allocation of that one is not known yet, or was lost.
func (v *judgement) another() verdict {
	if v.lost {
		return verdict{state: Freed}
	}
	return verdict{}
}

// ofMapping judges a claim that lies in no arena that is known: it has a
// mapping of its own, or had one.
func (v *judgement) ofMapping(c *Claim) (verdict, error) {
	if c.Addr < headBytes {
		return verdict{}, nil
	}
	if v.m.mappingOf(c.Addr-headBytes) == nil {
		return verdict{state: Freed, passed: true}, nil
	}
	var head [2]uint64
	if err := v.m.words(c.Addr-headBytes, head[:]); err != nil {
		return verdict{}, ignoreUnreadable(err)
	}
	chunk, end := head[1]&^sizeBits, (c.Addr-headBytes+head[1]&^sizeBits)%pageBytes
	mapped := head[1]&sizeBits == isMapped && (end == 0 || end == pageBytes-headBytes)
	switch {
	case mapped && chunk >= c.Size:
		return verdict{state: Allocated}, nil
	case chunk < minChunk, chunk > maxSize:
		return verdict{state: Freed, passed: true}, nil // no header: the mapping is another's now
	case mapped:
		return v.another(), nil
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
