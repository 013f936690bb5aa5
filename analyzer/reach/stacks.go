package reach

import (
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// Thread is what is known of a thread that stands still.
type Thread struct {
	TID   int
	SP    uint64   // stack pointer; 0: not known
	Words []uint64 // all registers

	signal unix.Signal // on its way when it stopped; 0: none
}

// redZone is the memory below the stack pointer that a function may use
// without moving it (System V ABI for x86-64, 3.2.2).
const redZone = 128

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
	for tid, sp := range stackPointers(p, stopped) {
		if z, ok := s.deadPart(sp, limit); ok {
			out = append(out, stack{tid, z})
		}
	}
	return out
}

// stackPointers lists the threads' stack pointers, where known.
func (c *scan) stackPointers() (out []uint64) {
	for _, sp := range stackPointers(c.p, c.options.Threads) {
		out = append(out, sp)
	}
	return out
}

// stackPointers yields threads and their stack pointers, where known.
func stackPointers(p *procfs.Process, stopped []Thread) func(yield func(tid int, sp uint64) bool) {
	return func(yield func(tid int, sp uint64) bool) {
		if stopped != nil {
			for _, t := range stopped {
				if t.SP != 0 && !yield(t.TID, t.SP) {
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
			if sp, ok, err := p.TaskStackPointer(tid); err == nil && ok && !yield(tid, sp) {
				return
			}
		}
	}
}

// deadPart returns what lies below the red zone of a stack: of [stack], or of
// a thread that glibc gave a stack of the usual size, with the guard in front
// that it always has. Other memory below a stack pointer may be other stacks.
func (s *space) deadPart(sp, limit uint64) (zone, bool) {
	v := s.mappingOf(sp)
	if v == nil || sp < v.start+redZone {
		return zone{}, false
	}
	z := zone{v.start, sp - redZone}
	if v.kind == procfs.KindStack {
		return z, true
	}
	guard := s.mappingOf(v.start - 1)
	whole := guard != nil && guard.perms&(procfs.Read|procfs.Write|procfs.Exec) == 0 &&
		guard.end-guard.start < maxGuard && v.end-guard.start == limit
	return z, whole
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
	for tid, sp := range stackPointers(p, nil) {
		now[tid] = sp
	}
	for _, b := range before {
		sp := max(now[b.tid], redZone) - redZone
		if sp < b.dead.end {
			out = append(out, zone{max(sp, b.dead.start), b.dead.end})
		}
	}
	return out
}
