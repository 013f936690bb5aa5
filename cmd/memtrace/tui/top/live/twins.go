package live

import (
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/collect"
)

// spaces tells which processes share one address space (clone(2) with CLONE_VM
// and without CLONE_THREAD): each of them reports the whole memory as its own.
//
// kcmp(2) compares two processes; it needs the right to ptrace both, and a
// kernel with CONFIG_KCMP. Where it says nothing, processes count as apart.
// Address spaces that are one have one size, so only processes whose sizes are
// equal, and changed since they were compared, are.
type spaces struct {
	known  map[collect.Identity]space
	nextID uint64
	same   func(a, b int) bool
}

type space struct {
	size uint64 // when it was compared
	id   uint64 // 0: shared with nobody
}

// maxComparisons bounds how many others one process is compared with.
const maxComparisons = 32

// update compares what is new, and forgets who has ended.
func (s *spaces) update(processes []*collect.Process) {
	before := s.known
	s.known = make(map[collect.Identity]space, len(processes))
	bySize := make(map[uint64][]*collect.Process)
	var fresh []*collect.Process
	for _, p := range processes {
		if p.KernelThread || p.State == 'Z' || p.VSize == 0 {
			continue
		}
		bySize[p.VSize] = append(bySize[p.VSize], p)
		if was, ok := before[p.Identity]; ok && was.size == p.VSize {
			s.known[p.Identity] = was
			continue
		}
		s.known[p.Identity] = space{size: p.VSize}
		fresh = append(fresh, p)
	}
	for _, p := range fresh {
		s.compare(p, bySize[p.VSize])
	}
}

// compare looks for another process that shares p's address space.
func (s *spaces) compare(p *collect.Process, others []*collect.Process) {
	compared := 0
	for _, o := range others {
		if o == p || !related(p, o) {
			continue
		}
		if compared++; compared > maxComparisons {
			return
		}
		if !s.same(p.PID, o.PID) {
			continue
		}
		id := s.known[o.Identity].id
		if id == 0 {
			s.nextID++
			id = s.nextID
		}
		s.known[o.Identity] = space{o.VSize, id}
		s.known[p.Identity] = space{p.VSize, id}
		return
	}
}

// related reports whether one may have come from the other by clone, or both
// from a third: by their parents, as far as those are still there.
func related(a, b *collect.Process) bool {
	return a.PPID == b.PPID || a.PPID == b.PID || b.PPID == a.PID || a.PPID == 1 || b.PPID == 1
}

// kcmpVM is KCMP_VM of include/uapi/linux/kcmp.h.
const kcmpVM = 1

// sameSpace asks the kernel whether two processes share an address space.
func sameSpace(a, b int) bool {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	return errno == 0 && order == 0
}
