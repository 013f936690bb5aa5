//go:build linux && !viewer

package reach

import (
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/ptraced"
)

// Thread is what is known of a thread that stands still.
type Thread struct {
	TID   int
	SP    uint64   // stack pointer; 0: not known
	Words []uint64 // all registers
	Exits bool     // it has called exit: no function of its goes on

	local       uint64       // thread pointer, where it is not among Words any more
	signal      unix.Signal  // on its way when it stopped; 0: none
	interrupted bool         // it stopped as it was asked to
	before      ptraced.Call // what it waited in before that
}

// below is the end of what is dead of the thread's stack. A function may keep something
// below its stack pointer for as long as it calls none; a thread that calls exit has called one.
func (t *Thread) below() uint64 {
	if t.Exits {
		return t.SP
	}
	return t.SP - min(redZone, t.SP)
}

// A stack is the dead part of a thread's stack.
type stack struct {
	tid  int
	dead zone
}

// stacks finds the dead parts of the stacks of those threads that the kernel
// has a stack pointer of. Where a stack cannot be told from its surroundings,
// all of it counts as alive.
func (s *space) stacks(p *procfs.Process, stopped []Thread) (out []stack) {
	limit := stackLimit(p.PID())
	for t := range threadsOf(p, stopped) {
		if z, ok := s.deadPart(t, limit); ok {
			out = append(out, stack{t.TID, z})
		}
	}
	return out
}

// stackPointers lists the threads' stack pointers, where known.
func (c *scan) stackPointers() (out []uint64) {
	for t := range threadsOf(c.p, c.options.Threads) {
		out = append(out, t.SP)
	}
	return out
}

// threadsOf yields the threads whose stack pointers are known.
func threadsOf(p *procfs.Process, stopped []Thread) func(yield func(t *Thread) bool) {
	return func(yield func(t *Thread) bool) {
		if stopped != nil {
			for i := range stopped {
				if stopped[i].SP != 0 && !yield(&stopped[i]) {
					return
				}
			}
			return
		}
		tids, err := p.Tasks()
		if err != nil {
			return // it ends, which is noticed when its memory is read
		}
		for _, tid := range tids {
			if sp, ok, err := p.TaskStackPointer(tid); err == nil && ok && !yield(&Thread{TID: tid, SP: sp}) {
				return
			}
		}
	}
}

// deadPart returns what is dead of a thread's stack: of [stack], or of
// a thread that glibc gave a stack of the usual size, with the guard in front
// that it always has. Other memory below a stack pointer may be other stacks.
func (s *space) deadPart(t *Thread, limit uint64) (zone, bool) {
	v := s.mappingOf(t.SP)
	if v == nil || t.below() <= v.start {
		return zone{}, false
	}
	return zone{v.start, t.below()}, v.kind == procfs.KindStack || s.isStack(v, t, limit)
}

// isStack reports whether a mapping begins with the thread's stack, which has the usual size and
// its guard in front. The kernel may have joined it with what lies above: then the thread
// pointer tells where it ends, right behind glibc's record of the thread. Before 2.27
// glibc took the guard from the usual size.
func (s *space) isStack(v *vma, t *Thread, limit uint64) bool {
	const record = 1 << 12 // struct pthread is shorter
	guard := s.mappingOf(v.start - 1)
	if guard == nil || guard.perms&(procfs.Read|procfs.Write|procfs.Exec) != 0 || guard.end-guard.start >= maxGuard {
		return false
	}
	for _, start := range []uint64{v.start, guard.start} {
		end, pointer := start+limit, t.pointer()
		if v.end == end || end < v.end && t.SP < pointer && pointer < end && end-pointer < record {
			return true
		}
	}
	return false
}

// maxGuard bounds what is taken for a thread stack's guard.
const maxGuard = 1 << 20

// stackLimit is the size that glibc gives a thread's stack by default.
func stackLimit(pid int) uint64 {
	const unlimited = 2 << 20 // ARCH_STACK_DEFAULT_SIZE
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_STACK, nil, &limit); err != nil {
		return 0 // no thread's stack is told apart then
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return unlimited
	}
	return limit.Cur &^ (pageBytes - 1)
}

// revived returns what of the zones has come to life since: all of those of
// threads that run now, and what threads that went on have grown into.
func revived(before []stack, p *procfs.Process) (out []zone) {
	now := make(map[int]uint64)
	for t := range threadsOf(p, nil) {
		now[t.TID] = t.below()
	}
	for _, b := range before {
		if sp := now[b.tid]; sp < b.dead.end {
			out = append(out, zone{max(sp, b.dead.start), b.dead.end})
		}
	}
	return out
}
