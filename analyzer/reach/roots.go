//go:build linux && !viewer

package reach

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/memtrace/memtrace/procfs"
)

// A span is memory whose roots are of a kind.
type span struct {
	start, end uint64
	kind       RootKind
}

// kindOf returns the kind of the roots at an address that is a root.
func (w *worker) kindOf(at uint64) RootKind {
	if at < w.span.start || at >= w.span.end {
		n, ok := slices.BinarySearchFunc(w.s.spans, at, func(s span, at uint64) int {
			switch {
			case s.end <= at:
				return -1
			case s.start > at:
				return 1
			}
			return 0
		})
		if !ok {
			return Anonymous
		}
		w.span = w.s.spans[n]
	}
	return w.span.kind
}

// findKinds works out what kinds of roots there are where. Of the threads' stack
// pointers and thread pointers, what is known counts, and so does what the program has mapped itself: to the
// kernel, mappings that happen to lie side by side are one, so that it may seem to have blocks.
func (s *space) findKinds(mem *memory, x *index, stacks []uint64, threads []Thread, mapped zones) {
	s.markHeaps(x)
	bss, tls := s.images(mem)
	local := threadLocal(threads, tls)
	inner := slices.Concat(local, bss)
	for i := range s.maps {
		v := &s.maps[i]
		kind := v.rootKind(slices.ContainsFunc(stacks, v.has))
		switch {
		case v.roots:
		case v.kind == procfs.KindHeap && len(s.broken) > 0:
			kind = Anonymous
		default:
			continue
		}
		whole := span{v.start, v.end, kind}
		switch kind {
		case Stacks:
			s.addSpan(whole, local)
		case Anonymous:
			s.addSpan(whole, inner)
		case AllocatorMemory:
			s.addSpan(whole, slices.Concat(inner, besides(mapped, whole, inner)))
		default:
			s.addSpan(whole, nil)
		}
	}
}

// besides is what of a span the program has mapped itself and is nothing else.
func besides(mapped zones, whole span, others []span) (out []span) {
	var known []zone
	for _, o := range others {
		known = append(known, zone{o.start, o.end})
	}
	rest := mapped.from(whole.start)
	end := slices.IndexFunc(rest, func(z zone) bool { return z.start >= whole.end })
	if end >= 0 {
		rest = rest[:end]
	}
	for _, z := range rest.without(joined(known)) {
		out = append(out, span{z.start, z.end, Anonymous})
	}
	return out
}

func (v *vma) has(addr uint64) bool { return addr >= v.start && addr < v.end }

func (v *vma) rootKind(stack bool) RootKind {
	switch {
	case v.kind == procfs.KindStack || stack:
		return Stacks
	case v.kind == procfs.KindHeap || v.arena:
		return HeapBeforeAttach
	case v.perms&procfs.Shared != 0 || v.kind == procfs.KindShmem:
		return SharedMemory
	case v.inode != 0:
		return Globals
	case v.blocks:
		return AllocatorMemory
	}
	return Anonymous
}

// addSpan adds a span in which others, inner, have kinds of their own.
func (s *space) addSpan(whole span, inner []span) {
	inner = slices.DeleteFunc(slices.Clone(inner), func(i span) bool { return i.end <= whole.start || i.start >= whole.end })
	slices.SortFunc(inner, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	at := whole.start
	for _, i := range inner {
		start, end := max(i.start, at), min(i.end, whole.end)
		if start >= end {
			continue
		}
		if at < start {
			s.spans = append(s.spans, span{at, start, whole.kind})
		}
		s.spans = append(s.spans, span{start, end, i.kind})
		at = end
	}
	if at < whole.end {
		s.spans = append(s.spans, span{at, whole.end, whole.kind})
	}
}

// markHeaps notes which mappings have blocks.
func (s *space) markHeaps(x *index) {
	var v *vma
	for _, r := range x.order {
		reg := &x.regions[r]
		for k := range reg.pages {
			if reg.pages[k].empty() {
				continue
			}
			page := reg.addr + uint64(k)<<pageShift
			if v == nil || !v.has(page) {
				v = s.mappingOf(page)
			}
			if v != nil {
				v.blocks = true
			}
		}
	}
}

const (
	tlsSurplus   = 1664    // what glibc adds for modules that come later (elf/dl-tls.c)
	controlBlock = 4 << 10 // its struct pthread, and more
)

// threadLocal is where the threads have their thread-local variables: below
// the thread pointer those of the modules loaded at the start, above it what
// libc keeps of the thread.
func threadLocal(threads []Thread, tls uint64) (out []span) {
	for _, t := range threads {
		if p := t.pointer(); p > tls+tlsSurplus && p < 1<<addrBits {
			out = append(out, span{p - tls - tlsSurplus, p + controlBlock, ThreadLocal})
		}
	}
	return out
}

// Keep leaves a thread some of its registers.
func (t *Thread) Keep(words []uint64) { t.local, t.Words = t.pointer(), words }

// pointer is the thread pointer, 0 where it is not known.
func (t *Thread) pointer() uint64 {
	if t.local != 0 {
		return t.local
	}
	if regThread < 0 || len(t.Words) <= max(regThread, 0) {
		return 0
	}
	return t.Words[max(regThread, 0)]
}

// maxImages bounds how many files' headers are read.
const maxImages = 4096

// images reads the headers of the files that are mapped with their data: where
// that ends, which may be in memory that is no file's any more, and how long the
// thread-local variables of all of them are.
func (s *space) images(mem *memory) (data []span, tls uint64) {
	read := 0
	for i := range s.maps {
		v := &s.maps[i]
		if v.inode == 0 || v.offset != 0 || v.perms&procfs.Read == 0 || v.perms&procfs.Shared != 0 {
			continue
		}
		if read++; read > maxImages {
			break
		}
		d, t := imageAt(mem, v.start)
		data = append(data, d...)
		tls += t
	}
	return data, tls
}

// imageAt reads the program headers of the ELF file that is mapped at an address.
func imageAt(mem *memory, at uint64) (data []span, tls uint64) {
	const (
		magic       = 0x464c457f
		maxHeaders  = 64
		headerWords = 7 // of Elf64_Phdr: type and flags, offset, vaddr, paddr, filesz, memsz, align
		load        = 1
		threadLocal = 7
		writable    = 2
		maxTLS      = 1 << 20
	)
	var head [8]uint64
	if mem.words(at, head[:]) != nil || uint32(head[0]) != magic {
		return nil, 0
	}
	count, size := head[7]&0xffff, head[6]>>48
	if count == 0 || count > maxHeaders || size != headerWords*8 || head[4] > 1<<20 {
		return nil, 0
	}
	table := make([]uint64, count*headerWords)
	if mem.words(at+head[4], table) != nil {
		return nil, 0
	}
	bias, known := uint64(0), false
	for h := range slices.Chunk(table, headerWords) {
		kind, flags, offset, vaddr, memsz, align := uint32(h[0]), uint32(h[0]>>32), h[1], h[2], h[5], h[6]
		switch {
		case kind == load && !known:
			bias, known = at-(vaddr-offset), true
		case kind == threadLocal && memsz <= maxTLS && align <= pageBytes:
			tls += memsz + align
		}
		if kind == load && flags&writable != 0 {
			end := (bias + vaddr + memsz + pageBytes - 1) &^ (pageBytes - 1)
			data = append(data, span{bias + vaddr, end, Globals})
		}
	}
	return data, tls
}

// direct are the blocks that roots of a kind point to, by kind. Those of
// Globals are found as they are read; the others wait for their turn.
type direct [RootKinds]bitmap

func (d *direct) make(a *area, n int) (err error) {
	for k := range d {
		if d[k], err = newBitmap(a, n); err != nil {
			return err
		}
	}
	return nil
}

// fromRoot takes a block that a root points to, during the sweep.
func (w *worker) fromRoot(i uint32, kind RootKind) {
	if kind == Globals {
		w.seen.add(i)
	} else if b := w.direct[kind]; !b.has(i) {
		b.add(i)
	}
}

// followDirect finds the blocks that roots of a kind point to, and all that
// these lead to.
func (m *marker) followDirect(kind RootKind) {
	const step = 1 << 10
	var next atomic.Int64
	b := m.direct[kind]
	m.drainAfter(func(w *worker) {
		for !m.mem.gone.Load() {
			from := int(next.Add(step)) - step
			if from >= len(b) {
				return
			}
			for k := from; k < min(from+step, len(b)); k++ {
				for v := b[k] &^ atomic.LoadUint64(&m.seen[k]); v != 0; v &= v - 1 {
					if i := uint32(k*64 + bits.TrailingZeros64(v)); m.seen.add(i) {
						w.followEdges(i)
					}
				}
				if len(w.stack) >= stackBatch {
					w.emptyStack()
				}
			}
		}
	})
}

// rootsOf follows the roots of a kind, the sweep having read them.
func (c *scan) rootsOf(kind RootKind) {
	m := c.marker
	m.stage = kind
	if kind == Registers {
		for _, t := range c.options.Threads {
			m.workers[0].registers(t.Words)
		}
		c.now()
		m.drain()
	} else if kind != Globals {
		m.followDirect(kind)
	}
	c.recognise()
	c.countTo(kind)
}

// countTo counts the blocks that were found since the last call for a kind of roots.
func (c *scan) countTo(kind RootKind) {
	sum := &c.ByRoots[kind]
	for k, v := range c.marker.seen {
		if kind == Globals && c.counted == nil {
			break
		}
		for n := v &^ c.counted[k]; n != 0; n &= n - 1 {
			sum.Count++
			sum.Bytes += c.index.size(uint32(k*64 + bits.TrailingZeros64(n)))
		}
	}
	c.counted = append(c.counted[:0], c.marker.seen...)
}

// countRest counts for the first kind what is reachable and was not counted for another.
func (c *scan) countRest() {
	first := &c.ByRoots[Globals]
	*first = c.Sums[Reachable]
	for _, s := range c.ByRoots[Globals+1:] {
		first.Count -= s.Count
		first.Bytes -= s.Bytes
	}
}
