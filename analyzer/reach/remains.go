package reach

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// Where a return probe is a system call (Linux 6.11 on x86-64), the kernel's trampoline
// saves registers on the stack that its function has just left
// (arch/x86/kernel/uprobes.c). S is the caller's stack pointer:
//
//	S-8   the function's return address, written by the kernel
//	S-16  rcx
//	S-24  r11
//
// Allocators leave the block's address in either register. Frames that come later may
// cover it and not overwrite it: then the pointer is not the program's but the probe's.
// It is told by the word at S-8: the address that the block's own allocation returned
// to. Only the allocator's frames have anything below such an address, and they are
// gone: while the call lasts, the trampoline's address stands there instead.

// A remain is a word on a stack that a return probe may have left.
type remain struct {
	at    uint64
	word  uint64
	start uint64 // of the block that it points to
	ret   uint64 // the return address above it
	i     uint32
}

// maxRemains bounds what is kept of them, per worker. Words beyond are pointers as others.
const maxRemains = 1 << 16

// isRemain keeps a word at an offset in b that a return probe may have left; it is decided
// later whether it did. Words in blocks are never asked about.
func (w *worker) isRemain(b *buffer, off uint64) bool {
	at, word := b.addr+off, *(*uint64)(unsafe.Pointer(&b.data[off]))
	if len(w.threadStacks) == 0 || !w.threadStacks.has(at) || len(w.remains) >= maxRemains {
		return false
	}
	// A stack pointer is a multiple of 16 where a call is made (System V ABI for x86-64, 3.2.2).
	above := uint64(8)
	if at%16 != 0 {
		above = 16
	}
	var ret [1]uint64
	if off%pageBytes+above+8 <= pageBytes {
		ret[0] = *(*uint64)(unsafe.Pointer(&b.data[off+above]))
	} else if w.mem.words(at+above, ret[:]) != nil {
		return false
	}
	if !w.s.isCode(ret[0]) {
		return false
	}
	i, start, ok := w.x.find(word & addrMask)
	if !ok {
		return false
	}
	w.remains = append(w.remains, remain{at, word, start, ret[0], i})
	return true
}

// isCode reports whether there is an instruction at an address.
func (s *space) isCode(addr uint64) bool {
	v := s.mappingOf(addr)
	return v != nil && v.perms&procfs.Exec != 0
}

// threadStacks are the mappings that are, as far as is known, stacks of threads.
func (s *space) threadStacks(p *procfs.Process, stopped []Thread) zones {
	var out []zone
	limit := stackLimit(p.PID())
	add := func(v *vma) { out = append(out, zone{v.start, v.end}) }
	for i := range s.maps {
		if v := &s.maps[i]; v.kind == procfs.KindStack || v.read && s.isWhole(v, limit) {
			add(v)
		}
	}
	for t := range threadsOf(p, stopped) {
		if v := s.mappingOf(t.SP); v != nil && v.kind == procfs.KindAnon && v.roots {
			add(v)
		}
	}
	return joined(out)
}

// decideRemains tells the program's pointers from the probes': what is its own is
// followed, what is not is no root any more.
func (c *scan) decideRemains() {
	m := c.marker
	list := m.takeRemains()
	if len(list) == 0 {
		return
	}
	callers := c.callersOf(list)
	var left []zone
	for _, r := range list {
		switch {
		case callers[r.start] == r.ret && c.space.returnsFromKnown(&c.mem, r.ret) && !c.mayBeInCall(r):
			left = append(left, zone{r.at, r.at + 8})
		case r.word-r.start < 8:
			m.workers[0].found(r.i, r.start)
		default:
			m.workers[0].note(interior{r.start, r.word - r.start, r.i, Stacks})
		}
	}
	m.dead = joined(append(left, m.dead...))
	m.drain()
}

// takeRemains returns the words that matter: those to blocks that nothing else leads to.
func (m *marker) takeRemains() (out []remain) {
	for _, w := range m.workers {
		for _, r := range w.remains {
			if !m.seen.has(r.i) {
				out = append(out, r)
			}
		}
		w.remains = w.remains[:0]
	}
	slices.SortFunc(out, func(a, b remain) int { return cmp.Compare(a.at, b.at) })
	return slices.CompactFunc(out, func(a, b remain) bool { return a.at == b.at })
}

// callersOf returns the addresses that the allocations of blocks returned to, by the blocks'.
func (c *scan) callersOf(list []remain) map[uint64]uint64 {
	out := make(map[uint64]uint64)
	for _, r := range list {
		out[r.start] = 0
	}
	c.blocks(func(addr, _ uint64, site uint32) bool {
		if _, ok := out[addr]; ok {
			out[addr] = c.options.Caller(site)
		}
		return true
	})
	return out
}

// returnsFromKnown reports whether the call before a return address is one that always calls the
// same function: by its distance, or through a pointer at a fixed place, as those to other objects are.
// What other calls reach may be the allocator one time, and another function the next.
func (s *space) returnsFromKnown(mem *memory, ret uint64) bool {
	var word [1]uint64
	if ret < 8 || mem.words(ret-8, word[:]) != nil {
		return false
	}
	distance := uint64(int64(int32(word[0] >> 32)))
	if byte(word[0]>>24) == 0xe8 { // call rel32
		return s.isCode(ret + distance)
	}
	if uint16(word[0]>>16) != 0x15ff { // call *disp32(%rip)
		return false
	}
	return mem.words(ret+distance, word[:]) == nil && s.isCode(word[0])
}

// fastPath is how far below its caller's stack pointer an allocator is at most where it
// serves a call whose return is not asked for: from a list of the thread's own.
const fastPath = 256

// mayBeInCall reports whether a thread may be in a call whose frame a word is in, and that the
// kernel was not asked for the return of, so that its return address is in place.
func (c *scan) mayBeInCall(r remain) bool {
	if c.options.Threads == nil {
		return c.options.Unasked
	}
	for _, t := range c.options.Threads {
		if t.Exits || t.SP > r.at || c.space.mappingOf(t.SP) != c.space.mappingOf(r.at) {
			continue
		}
		if c.options.Unasked || t.interrupted() && r.at-t.SP < fastPath {
			return true
		}
	}
	return false
}

// probesSave reports whether return probes leave registers on the stacks of a process. They
// leave none where it has no trampoline yet.
func (s *space) probesSave() bool {
	return returnsSave && slices.ContainsFunc(s.maps, func(v vma) bool { return v.trampoline }) && kernelSaves()
}

// kernelSaves reports whether return probes are a system call. The trampoline itself cannot be read.
var kernelSaves = sync.OnceValue(func() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 6 || major == 6 && minor >= 11)
})
