//go:build linux && !viewer

package reach

import (
	"path"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/procfs"
)

// glibc keeps the stacks of threads that have ended, for others to come. All that is
// in them is dead: frames, the thread's variables, and its struct pthread. They are told by glibc's own
// records (2.34 and newer: sysdeps/generic/ldsodefs.h, struct rtld_global),
//
//	list_t _dl_stack_used, _dl_stack_user, _dl_stack_cache;
//	size_t _dl_stack_cache_actsize;
//
// These are rings of the structs pthread of threads with a stack of glibc's, with one of the program's own, and of
// stacks that are kept. The last word is the sum of these stacks' sizes, so that the records prove
// themselves: nothing else looks like that by chance, and no stack of a fiber is among them.

const (
	ringHeads       = 3
	headWords       = 2*ringHeads + 1
	maxRing         = 1 << 14 // stacks: glibc keeps 40 MiB of them
	maxStackRecords = 1 << 20 // bytes of a file's data that are searched for the records
)

// A cachedStack is what is dead of a stack that glibc keeps, or of an ended thread's that nobody has
// joined yet: its struct pthread has what it returned.
type cachedStack struct {
	zone
	record uint64 // of its struct pthread, the part from its list on
	joined bool
}

// cachedStacks finds the stacks that glibc keeps for reuse.
func (s *space) cachedStacks(mem *memory) []cachedStack {
	for i := range s.maps {
		v := &s.maps[i]
		if !v.read || !v.libc || v.perms&procfs.Write == 0 || v.end-v.start > maxStackRecords {
			continue
		}
		words := make([]uint64, (v.end-v.start)/8)
		if mem.words(v.start, words) != nil {
			continue
		}
		for at := range len(words) - headWords + 1 {
			if found := s.ring(mem, v.start+uint64(at)*8, words[at:at+headWords]); found != nil {
				return found
			}
		}
	}
	return nil
}

// ring returns the stacks of the last of three rings whose heads begin at an address, if the word behind says
// that it is the one of kept stacks.
func (s *space) ring(mem *memory, addr uint64, words []uint64) (out []cachedStack) {
	head, sum := addr+4*8, words[6]
	first := words[4]
	if sum == 0 || sum%pageBytes != 0 || first == head || (first|words[0]|words[2])%8 != 0 || !s.isAnonymous(first) {
		return nil
	}
	for at := range s.records(mem, head, first) {
		z, ok := s.stackOf(mem, at)
		if !ok || z.end-z.start > sum {
			return nil
		}
		sum -= z.end - z.start
		out = append(out, cachedStack{z, at, true})
	}
	if sum != 0 || len(out) == 0 || words[5] != out[len(out)-1].record ||
		!s.isHead(mem, addr, words[:2]) || !s.isHead(mem, addr+16, words[2:4]) {
		return nil
	}
	for at := range s.records(mem, addr, words[0]) {
		if z, ok := s.stackOf(mem, at); ok && z.start < at-recordOffset {
			out = append(out, cachedStack{zone{z.start, at - recordOffset}, at, false})
		}
	}
	return out
}

// records yields the members of a ring up to its head, as far as they are linked as they should be.
func (s *space) records(mem *memory, head, first uint64) func(yield func(at uint64) bool) {
	return func(yield func(at uint64) bool) {
		at, previous := first, head
		for range maxRing {
			var links [2]uint64
			if at == head || !s.isAnonymous(at) || mem.words(at, links[:]) != nil || links[1] != previous || !yield(at) {
				return
			}
			at, previous = links[0], at
		}
	}
}

// isHead reports whether two words are the links of a ring's head.
func (s *space) isHead(mem *memory, head uint64, links []uint64) bool {
	var next, previous [2]uint64
	return mem.words(links[0], next[:]) == nil && mem.words(links[1], previous[:]) == nil && next[1] == head && previous[0] == head
}

func (s *space) isAnonymous(addr uint64) bool {
	v := s.mappingOf(addr)
	return v != nil && v.kind == procfs.KindAnon && v.perms&procfs.Write != 0
}

// stackOf finds, in a struct pthread, where its stack lies: the words stackblock and stackblock_size, which
// end right behind the struct, or behind the thread's variables (arm64).
func (s *space) stackOf(mem *memory, record uint64) (zone, bool) {
	var words [recordWords]uint64
	v := s.mappingOf(record)
	n := min(recordWords, (v.end-record)/8)
	// tid is cleared by the kernel as the thread ends, and set to -1 as it is joined.
	if mem.words(record, words[:n]) != nil || int32(words[2]) > 0 {
		return zone{}, false
	}
	for i := 3; i+2 < int(n); i++ {
		start, size, guard := words[i], words[i+1], words[i+2]
		if (start|size)%pageBytes == 0 && guard < size && start < record && record-start < size && size <= v.end-start &&
			start+guard >= v.start {
			return zone{start, start + size}, true
		}
	}
	return zone{}, false
}

// recordWords is how much of a struct pthread is looked at, from its list on.
const recordWords = 256

// isLibc reports whether a file is one that has glibc's records in its data: the loader.
func isLibc(file string) bool {
	name := path.Base(file)
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-2.") || strings.HasPrefix(name, "ld64")
}

// cachedAsDead finds the stacks that glibc keeps for reuse, which are dead.
func (c *scan) cachedAsDead() (dead []zone) {
	c.cached = c.space.cachedStacks(&c.mem)
	for _, k := range c.cached {
		dead = append(dead, k.zone)
	}
	return dead
}

// reusedStacks returns those of the kept stacks that have been given to threads since.
func (c *scan) reusedStacks() (out []zone) {
	if len(c.cached) == 0 {
		return nil
	}
	now := c.space.cachedStacks(&c.mem)
	for _, k := range c.cached {
		if !slices.Contains(now, k) {
			out = append(out, k.zone)
		}
	}
	return out
}

// keepVectors takes for held what glibc itself keeps with a stack: the vector of the thread's TLS blocks, and
// those blocks. What these lead to is dead all the same.
func (c *scan) keepVectors() {
	m := c.marker
	defer func() { slices.Sort(c.inert) }()
	for _, k := range c.cached {
		if !k.joined {
			continue // its record is a root
		}
		words := make([]uint64, min(k.end-k.record+recordWords*8, k.end-k.start, maxStackRecords)/8)
		if c.mem.words(k.end-uint64(len(words))*8, words) != nil {
			continue
		}
		for _, word := range words {
			i, start, ok := c.index.find(word)
			if ok && !m.seen.has(i) && m.isVector(interior{start, word - start, i, ThreadLocal}) {
				c.keep(i)
				c.keepBlocks(start, c.index.size(i))
			}
		}
	}
}

func (m *marker) isVector(n interior) bool {
	var head [2]uint64
	return m.x.size(n.i) >= 16 && m.mem.words(n.start, head[:]) == nil && m.isDTV(n, head, m.x.size(n.i))
}

// keepBlocks takes the TLS blocks of a vector for held.
func (c *scan) keepBlocks(vector, size uint64) {
	words := make([]uint64, min(size, maxStackRecords)/8)
	if c.mem.words(vector, words) != nil {
		return
	}
	for _, word := range words {
		if i, _, ok := c.index.find(word); ok {
			c.keep(i)
		}
	}
}

// keep takes a block for held, but not what it leads to.
func (c *scan) keep(i uint32) {
	if c.marker.seen.add(i) {
		c.inert = append(c.inert, i)
	}
}
