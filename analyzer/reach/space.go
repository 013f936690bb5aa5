//go:build linux && !viewer

package reach

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/memtrace/memtrace/procfs"
)

const (
	winShift = 18
	winBytes = 1 << winShift // 256 KiB: a read, and 64 pages
	winPages = winBytes / pageBytes
)

// A window is 256 KiB of address space at a multiple of that, of which
// something is to be read: a bit a page, the lowest that of the first.
type window struct {
	addr    uint64
	present uint64 // pages that are in memory or swapped
	roots   uint64 // pages that are roots outside of blocks
}

// space is the memory of a process that may hold pointers.
type space struct {
	windows []window // ascending
	maps    []vma
	spans   []span // of roots, ascending
	anon    zones  // private anonymous memory; nil: not worked out yet
	broken  zones  // pages of [heap] that are the program's own
	swapped uint64 // bytes of pages in swap
}

// A vma is a mapping that is of interest.
type vma struct {
	start, end uint64
	kind       procfs.Kind
	perms      procfs.Perms
	inode      uint64
	offset     uint64 // into the file
	arena      bool   // of glibc, for a thread
	roots      bool   // what blocks do not cover is a root
	allocator  bool   // of a library that is nothing but an allocator
	blocks     bool   // some start there
	read       bool
	libc       bool // data of the file that has glibc's records of stacks
}

// load reads what memory the process has. With AllSeen, memory that only an
// allocator can have written to is no root: what is left there is free.
func (s *space) load(p *procfs.Process, mem *memory, x *index, o *Options) error {
	err := p.Maps(func(v *procfs.VMA) {
		of := v.Inode != 0 && slices.Contains(o.Allocators, string(v.Path))
		s.maps = append(s.maps, vma{start: v.Start, end: v.End, kind: v.Kind, perms: v.Perms, inode: v.Inode, offset: v.Offset, allocator: of,
			libc: v.Inode != 0 && isLibc(string(v.Path))})
	})
	if err != nil {
		return err
	}
	for i := range s.maps {
		v := &s.maps[i]
		v.read = s.mayHoldPointers(i)
		v.arena = v.read && isArena(v, mem)
		// In [heap] and arenas glibc's allocator alone puts anything but blocks.
		v.roots = v.read && !(o.AllSeen && (v.arena || v.kind == procfs.KindHeap))
	}
	s.broken = joined(append(ownBreak(o), s.staticTLS(mem)...))
	if err := s.loadPages(p, mem); err != nil {
		return err
	}
	s.addStarts(x)
	s.link(x)
	return nil
}

// mayHoldPointers tells writable memory, and what may have been writable:
// anonymous memory, and the part of a file's data that the loader protects
// after relocation, which lies in front of the writable rest.
func (s *space) mayHoldPointers(i int) bool {
	v := &s.maps[i]
	switch v.kind {
	case procfs.KindVDSO, procfs.KindOther:
		return false
	}
	if v.perms&procfs.Read == 0 || v.start >= 1<<addrBits {
		return false
	}
	if v.perms&procfs.Write != 0 {
		return true
	}
	if v.perms&procfs.Shared == 0 && (v.kind == procfs.KindAnon || v.kind == procfs.KindHeap) {
		return true
	}
	return v.inode != 0 && v.perms == procfs.Read && i+1 < len(s.maps) &&
		s.maps[i+1].inode == v.inode && s.maps[i+1].start == v.end && s.maps[i+1].perms&procfs.Write != 0
}

// isArena tells the arenas of glibc's threads. They begin at a multiple of
// 64 MiB with a struct heap_info (malloc/arena.c),
//
//	{mstate ar_ptr; heap_info *prev; size_t size, mprotect_size, …}
//
// where mprotect_size is the length of the writable mapping.
func isArena(v *vma, mem *memory) bool {
	const arenaBytes = 64 << 20
	if v.kind != procfs.KindAnon || v.perms != procfs.Read|procfs.Write || v.start%arenaBytes != 0 {
		return false
	}
	var info [4]uint64
	return mem.words(v.start, info[:]) == nil &&
		info[3] == v.end-v.start && info[2] <= info[3] && info[0]%8 == 0 && info[0] != 0
}

// loadPages makes windows of the pages that are there.
func (s *space) loadPages(p *procfs.Process, mem *memory) error {
	pm, err := p.OpenPagemap()
	if err != nil {
		return err
	}
	defer func() {
		mem.held(pm.LongestCall())
		_ = pm.Close()
	}()
	pm.Around(mem.call)
	for i := range s.maps {
		v := &s.maps[i]
		if !v.read {
			continue
		}
		if v.kind == procfs.KindShmem && v.end-v.start <= maxWholeShmem {
			// Another process's pages are not in this one's page table.
			s.addPages(v.start, v.end, v.roots)
			continue
		}
		err := pm.Runs(v.start, v.end, func(start, end uint64, state procfs.PageState) {
			if state&procfs.PageSwapped != 0 {
				s.swapped += end - start
			}
			s.addRun(v, start, end)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addRun adds pages of a mapping. Of [heap] that is no root, what the program has made by
// moving the program break itself is one: no allocator has written there.
func (s *space) addRun(v *vma, start, end uint64) {
	if !v.roots && v.kind == procfs.KindHeap {
		for _, z := range s.broken.from(start) {
			if z.start >= end {
				break
			}
			s.addPages(start, z.start, false)
			s.addPages(max(start, z.start), min(z.end, end), true)
			start = min(z.end, end)
		}
	}
	s.addPages(start, end, v.roots)
}

// staticTLS is where a static program of glibc's has its first thread's variables and struct
// pthread: it moves the program break for them before its allocator does.
func (s *space) staticTLS(mem *memory) zones {
	heap := slices.IndexFunc(s.maps, func(v vma) bool { return v.kind == procfs.KindHeap })
	if heap < 0 || slices.ContainsFunc(s.maps, func(v vma) bool { return v.libc }) {
		return nil
	}
	_, tls := s.images(mem)
	start := s.maps[heap].start
	return zones{{start, (start + tls + tlsSurplus + controlBlock + pageBytes - 1) &^ (pageBytes - 1)}}
}

// ownBreak is what the program has mapped itself, in whole pages.
func ownBreak(o *Options) zones {
	var all []zone
	if o.Mapped != nil {
		for start, end := range o.Mapped {
			all = append(all, zone{start &^ (pageBytes - 1), (end + pageBytes - 1) &^ (pageBytes - 1)})
		}
	}
	return joined(all)
}

// maxWholeShmem bounds the shared memory that is read whether or not the
// process has its pages mapped.
const maxWholeShmem = 64 << 20

// addPages adds pages, which come in ascending order.
func (s *space) addPages(start, end uint64, roots bool) {
	for at := start; at < end; {
		base := at &^ (winBytes - 1)
		to := min(end, base+winBytes)
		w := s.tail(base)
		mask := pageMask(at-base, to-base)
		w.present |= mask
		if roots {
			w.roots |= mask
		}
		at = to
	}
}

// tail returns the window at base, the last or a new one.
func (s *space) tail(base uint64) *window {
	if n := len(s.windows); n == 0 || s.windows[n-1].addr < base {
		s.windows = append(s.windows, window{addr: base})
	}
	return &s.windows[len(s.windows)-1]
}

// pageMask has the bits of the pages that lie between two offsets into a window.
func pageMask(from, to uint64) uint64 {
	first, end := from>>pageShift, (to+pageBytes-1)>>pageShift
	if first >= end {
		return 0
	}
	return ^uint64(0) >> (64 - (end - first)) << first
}

// addStarts sees to it that there is a window wherever a block starts, even if
// nothing of it has been touched.
func (s *space) addStarts(x *index) {
	known := len(s.windows)
	for _, r := range x.order {
		reg := &x.regions[r]
		for k := range uint64(regionWins) {
			if !reg.hasStarts(int(k)) {
				continue
			}
			addr := reg.addr + k<<winShift
			if _, ok := slices.BinarySearchFunc(s.windows[:known], addr, compareWindow); !ok {
				s.windows = append(s.windows, window{addr: addr})
			}
		}
	}
	slices.SortFunc(s.windows, func(a, b window) int { return compareWindow(a, b.addr) })
}

// hasStarts reports whether a block starts in window k of the region.
func (r *region) hasStarts(k int) bool {
	for i := range winPages {
		if !r.pages[k*winPages+i].empty() {
			return true
		}
	}
	return false
}

func compareWindow(w window, addr uint64) int {
	switch {
	case w.addr < addr:
		return -1
	case w.addr > addr:
		return 1
	}
	return 0
}

// link enters the windows' numbers in the regions of the index.
func (s *space) link(x *index) {
	for i := range s.windows {
		addr := s.windows[i].addr
		if addr < x.base || addr >= x.hi {
			continue
		}
		if t := x.top[(addr-x.base)>>regionShift]; t != 0 && t&coverFlag == 0 {
			x.regions[t].wins[addr>>winShift%regionWins] = uint32(i) + 1
		}
	}
}

// at returns the window that addr lies in, or nil.
func (s *space) at(addr uint64) *window {
	i, ok := slices.BinarySearchFunc(s.windows, addr&^(winBytes-1), compareWindow)
	if !ok {
		return nil
	}
	return &s.windows[i]
}

// mappingOf returns the mapping that addr lies in, or nil.
func (s *space) mappingOf(addr uint64) *vma {
	i, ok := slices.BinarySearchFunc(s.maps, addr, func(v vma, addr uint64) int {
		switch {
		case v.end <= addr:
			return -1
		case v.start > addr:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &s.maps[i]
}

// presentBytes sums the pages to be read.
func (s *space) presentBytes() (n uint64) {
	for i := range s.windows {
		n += uint64(bits.OnesCount64(s.windows[i].present)) << pageShift
	}
	return n
}

func (v *vma) String() string { return fmt.Sprintf("%x-%x %v %v", v.start, v.end, v.perms, v.kind) }
