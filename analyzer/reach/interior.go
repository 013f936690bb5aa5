//go:build linux && !viewer

package reach

import (
	"slices"

	"github.com/memtrace/memtrace/procfs"
)

// An interior is a pointer to another place in a block than its start.
type interior struct {
	start  uint64
	offset uint64 // above the size where the word bears a tag in its upper bits
	i      uint32
	kind   RootKind // of the roots that it stands in
}

const (
	recentNotes = 1 << 12
	maxNotes    = 1 << 21 // per worker, 48 MiB: most are of blocks that turn out to be reachable
)

// note keeps a pointer into a block until it is known whether others point to
// the block's start.
func (w *worker) note(n interior) {
	r := &w.recent[(n.start>>3^n.offset)*0x9e3779b97f4a7c15>>52]
	if *r == n {
		return
	}
	*r = n
	if len(w.notes) >= maxNotes {
		w.notes = slices.DeleteFunc(w.notes, func(n interior) bool { return w.seen.has(n.i) })
		if len(w.notes) > maxNotes/2 {
			w.assumed++
			w.found(n.i, n.start)
			return
		}
	}
	w.notes = append(w.notes, n)
}

// takeNotes returns the pointers into blocks that are not found yet.
func (m *marker) takeNotes() (out []interior) {
	for _, w := range m.workers {
		for _, n := range w.notes {
			if !m.seen.has(n.i) {
				out = append(out, n)
			}
		}
		w.notes = w.notes[:0]
		clear(w.recent[:])
	}
	slices.SortFunc(out, func(a, b interior) int {
		switch {
		case a.start < b.start || a.start == b.start && a.offset < b.offset:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	return slices.Compact(out)
}

// asStart reports whether a pointer into a block is what the block's owner
// keeps in place of one to its start. These are Valgrind's heuristics
// (memcheck/mc_leakcheck.c), the last one made stricter by the layout of
// virtual tables (Itanium C++ ABI, 2.5.2).
func (m *marker) asStart(n interior) bool {
	size := m.x.size(n.i)
	if n.offset > size {
		return false
	}
	if m.isArray(n, size) {
		return true
	}
	var head [2]uint64
	if size < 16 || m.mem.words(n.start, head[:]) != nil {
		return false
	}
	switch {
	case n.offset == 8 && m.isSize(head[0], size-8):
		return true // a length in front (sqlite's allocator)
	case n.offset == 24 && head[0] <= head[1] && m.isSize(head[1], size-25):
		return true // std::string of before C++11: length, capacity, references
	case n.offset == 16 && isCount(head[0]) && isCount(head[1]):
		return true // Rust's Rc and Arc as raw pointers: strong and weak references in front
	}
	return n.offset%8 == 0 && (m.isDTV(n, head, size) || m.isAligned(n) || m.isSecondBase(n, head[0]) || m.isSwissTable(n))
}

// isArray recognises what new T[n] returns where T has a destructor. Their number
// stands in front of the elements, at the end of a cookie that is as long as T
// is aligned to, and 8 bytes at least (Itanium C++ ABI, 2.7).
func (m *marker) isArray(n interior, size uint64) bool {
	const longest = 64 // of a cache line: what types are aligned to
	if n.offset < 8 || n.offset > longest || n.offset&(n.offset-1) != 0 || n.offset > size {
		return false
	}
	var number [1]uint64
	if m.mem.words(n.start+n.offset-8, number[:]) != nil {
		return false
	}
	each := uint64(1) // at least, and the unit of an element's size
	if n.offset > 8 {
		each = n.offset
	}
	elements := size - n.offset
	if number[0] == 0 {
		return elements <= m.slack
	}
	return number[0] <= elements/each && elements%(number[0]*each) <= m.slack
}

// isDTV recognises a thread's vector of TLS blocks, to which glibc keeps a
// pointer past its length. Of 16 bytes each: the length, the generation, and a
// pointer for each module (elf/dl-tls.c, allocate_dtv and _dl_resize_dtv).
func (m *marker) isDTV(n interior, head [2]uint64, size uint64) bool {
	const unallocated = ^uint64(0)
	if n.offset != 16 || head[1] != 0 || head[0] > 1<<24 || !m.isSize(16*(head[0]+2), size) {
		return false
	}
	var words [3]uint64 // the generation, padding, and the first module's block
	if m.mem.words(n.start+16, words[:]) != nil || words[0] >= 1<<31 || words[1] != 0 {
		return false
	}
	v := m.s.mappingOf(words[2])
	return words[2] == unallocated || v != nil && v.perms&procfs.Write != 0
}

// isCount reports whether a word may be a number of references.
func isCount(v uint64) bool { return v != 0 && v < 1<<31 }

// isSwissTable recognises what Rust's HashMap keeps of its table: a pointer to
// the control bytes, behind the buckets. There is a byte for each bucket, the
// seven bits of a hash, 0xff (empty) or 0x80 (deleted), and a copy of the first
// group at the end, with which the block ends (hashbrown, src/raw/mod.rs).
func (m *marker) isSwissTable(n interior) bool {
	buckets := m.x.size(n.i) - n.offset - swissGroup
	ctrl := n.start + n.offset
	return buckets >= 4 && buckets < 1<<40 && buckets&(buckets-1) == 0 &&
		m.endsWithCopy(ctrl, buckets, swissGroup) && m.hasEmpty(ctrl, buckets)
}

// endsWithCopy reports whether the control bytes of a table are well-formed as
// far as its first group goes, and repeated at the end. With fewer buckets
// than a group has bytes, the group is filled up with empty ones.
func (m *marker) endsWithCopy(ctrl, buckets, group uint64) bool {
	var first, last [2]uint64
	if m.mem.words(ctrl, first[:group/8]) != nil || m.mem.words(ctrl+buckets, last[:group/8]) != nil {
		return false
	}
	at := func(words *[2]uint64, k uint64) byte { return byte(words[k/8] >> (k % 8 * 8)) }
	shift := group - min(buckets, group)
	for k := range group {
		c := at(&first, k)
		switch {
		case k >= buckets && c != 0xff, k < buckets && at(&last, k+shift) != c, c > 0x80 && c != 0xff:
			return false
		}
	}
	return true
}

// hasEmpty reports whether all bytes are well-formed and some buckets free, as
// one in eight is at least: memory that repeats itself, such as zeros, is no
// table. As many bytes are read as leave no doubt.
func (m *marker) hasEmpty(ctrl, buckets uint64) bool {
	var words [32]uint64
	n := min(buckets, uint64(8*len(words)))
	if m.mem.words(ctrl, words[:(n+7)/8]) != nil {
		return false
	}
	free := uint64(0)
	for k := range n {
		switch c := byte(words[k/8] >> (k % 8 * 8)); {
		case c == 0xff, c == 0x80:
			free++
		case c > 0x80:
			return false
		}
	}
	return free > 0 && free >= n/16
}

// isSize reports whether v is a size, or less by what the allocator added.
func (m *marker) isSize(v, size uint64) bool { return v <= size && size-v <= m.slack }

// isAligned recognises what aligns blocks by hand: the block's start, for free
// to be given, stands in front of the aligned address, or behind its first
// word (glibc, elf/dl-find_object.c).
func (m *marker) isAligned(n interior) bool {
	var around [3]uint64
	if n.offset+16 > m.x.size(n.i) || m.mem.words(n.start+n.offset-8, around[:]) != nil {
		return false
	}
	return around[0] == n.start || around[2] == n.start
}

// isSecondBase recognises a pointer to a base class that is not the object's
// first: there and at the object's start are pointers to virtual tables, and
// the second table tells the distance back to the start.
func (m *marker) isSecondBase(n interior, first uint64) bool {
	var second [1]uint64
	if m.mem.words(n.start+n.offset, second[:]) != nil {
		return false
	}
	top, ok := m.offsetToTop(first)
	if !ok || top != 0 {
		return false
	}
	top, ok = m.offsetToTop(second[0])
	return ok && top == -int64(n.offset)
}

// offsetToTop reads that field of a virtual table, which must be in memory
// that cannot be written, and whose typeinfo, if there is one, too.
func (m *marker) offsetToTop(table uint64) (int64, bool) {
	if table%8 != 0 || !m.constant(table) {
		return 0, false
	}
	var head [2]uint64
	if m.mem.words(table-16, head[:]) != nil || head[1] != 0 && !m.constant(head[1]) {
		return 0, false
	}
	return int64(head[0]), true
}

// constant reports whether an address is in a file's mapping that cannot be
// written.
func (m *marker) constant(addr uint64) bool {
	v := m.s.mappingOf(addr)
	return v != nil && v.inode != 0 && v.perms&procfs.Write == 0
}
