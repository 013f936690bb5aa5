//go:build linux && !viewer

package analyzer

import "github.com/memtrace/memtrace/procfs"

// threadStacks knows which mappings are stacks of threads other than the
// first, whose stack the kernel names itself. A mapping is such a stack where
//
//   - the stack pointer of a thread lies in it, which the kernel tells of a
//     thread that sleeps, and
//   - it begins where a small mapping ends that cannot be accessed: the guard
//     that pthread_create lays below a stack. Without it, memory that a runtime
//     parcels out to stacks and to other uses would be taken for a stack: Go's
//     heap, which lies above reserved memory of 4 MiB and more.
//
// What was found once holds while the thread and the mapping last. So a
// thread that never sleeps when it is looked at is missed, and so are stacks
// whose guard is no mapping of its own (glibc 2.42 on Linux 6.13).
type threadStacks struct {
	of map[int]addrRange
}

// maxGuard is the greatest size of a guard, in bytes: a page by pthread_create's
// default, two in musl, four and more in a JVM, each of up to 64 KiB.
const maxGuard = 256 << 10

// maxThreads bounds how many threads' stacks are looked for in one pass.
const maxThreads = 4096

// mark gives the stacks' mappings their class and returns how many threads
// have none.
func (s *threadStacks) mark(p *procfs.Process, l *layout) (missing int) {
	tids, err := p.Tasks()
	if err != nil {
		return 0 // it is ending, or a made-up process: the next reading will tell
	}
	found := make(map[int]addrRange, len(s.of))
	for i, tid := range tids {
		if tid == p.PID() {
			continue
		}
		m := l.stackAt(s.of[tid].start)
		if m == nil && i < maxThreads {
			if sp, ok, err := p.TaskStackPointer(tid); err == nil && ok {
				m = l.stackAt(sp)
			}
		}
		if m == nil {
			missing++
			continue
		}
		m.class = classStack
		found[tid] = addrRange{m.start, m.end}
	}
	s.of = found
	return missing
}

// stackAt returns the mapping at addr if it may be a thread's stack.
func (l *layout) stackAt(addr uint64) *mapping {
	i := l.find(addr)
	if addr == 0 || i < 0 || addr >= l.spans[i].end {
		return nil
	}
	m := &l.mappings[l.spans[i].mapping]
	if !m.guarded || !m.mayBeHeap || m.brk {
		return nil
	}
	return m
}
