package probe

// ThreadCache says where a function finds the block that it returns: at the head of one of
// the lists of free blocks that its allocator keeps for each thread. The zero
// value stands for none.
type ThreadCache struct {
	Layout CacheLayout
	Slot   int64  // where the word lies that holds the offset of the thread's variable from its pointer, in bytes from the instruction at Offset; 0: Fixed is that offset
	Fixed  int32  // bytes
	Table  int64  // of layouts with classes: where the bytes lie that say the class of each 8 bytes of size, in bytes from the instruction at Offset
	First  int32  // where the first list lies in the cache, in bytes
	Stride uint16 // bytes from one to the next
	Head   uint16 // CachePages: where in a page's description the head of its list is
	Budget uint16 // CacheLists: where in the cache the word is that counts bytes down to the next sample, which comes from elsewhere; 0: nowhere
	Limit  uint32 // bytes of the largest block for which all this holds
}

// CacheLayout says how a cache's lists are found. The values are a contract with
// bpf/headers/predict.h.
type CacheLayout uint8

const (
	NoCache        CacheLayout = iota
	CacheCounted               // glibc 2.30 to 2.41, struct tcache_perthread_struct: counts[64] of 16 bits, entries[64]; a list is empty where its count is 0
	CacheUncounted             // from 2.42 on: num_slots[76], which doesn't say how many there are, entries
	CacheLists                 // tcmalloc, ThreadCache: a list for each class, that begins with its head
	CacheStacks                // jemalloc 5.3, cache_bin_t: for each class a stack of blocks, with the lower halves of its bounds; they lie in the variable itself
	CachePages                 // mimalloc, mi_heap_t: a page for each 8 bytes of size, that has a list
)

// What is known of those layouts.
const (
	tcacheLists      = 64
	countedEntries   = tcacheLists * 2
	uncountedEntries = (tcacheLists + 12) * 2
	stackSize        = 24
	stackBudget      = 40 // so far before the first stack stands how much the thread has allocated, and then from how much on something else is done, as when it samples
	stackLow         = 16 // where a stack says up to where it was used lately
	stackEmpty       = 20 // and where it ends
	maxLimit         = 1 << 16
	sizesPerClass    = 3 // bits: of sizes rounded up
)

// threadCache finds out where a function takes its results from, by following its
// code to where it loads one. Whatever isn't understood leads to none.
func (im *image) threadCache(s symbol, code body, from uint64) (cache ThreadCache) {
	isMalloc := s.shape == Malloc && s.args[0] == 1
	if code == nil || !isMalloc && (s.shape != Calloc || s.family != Glibc) {
		return ThreadCache{}
	}
	e := newEvaluator(im, code)
	e.follow(func(w *way) bool {
		found := cacheSearch{atoms: e.atoms, way: w, last: w.accesses[len(w.accesses)-1]}
		ok := s.family == Glibc && found.tcache() || isMalloc && (found.lists() || found.stacks() || found.pages())
		cache = found.cache
		if cache.Slot != 0 {
			cache.Slot -= int64(from)
		}
		if cache.Table != 0 {
			cache.Table -= int64(from)
		}
		return ok
	})
	return cache
}

// cacheSearch looks at a way up to its last access for one of the layouts. What it finds
// has addresses instead of distances.
type cacheSearch struct {
	*atoms
	way   *way
	last  access
	cache ThreadCache
}

// inThread says which variable of the thread's lies at an address, and what is added to that.
func (s *cacheSearch) inThread(at formula) (slot int64, rest formula, ok bool) {
	threads := s.known[atom{kind: thread}]
	rest, ok = at.without(threads)
	for _, t := range rest.terms {
		if ok && t.atom != 0 && t.times == 1 && s.all[t.atom-1].kind == variable {
			rest, _ = rest.without(t.atom)
			return s.all[t.atom-1].of.plus, rest, true
		}
	}
	return 0, rest, ok
}

// pointer takes a pointer that is kept in a variable of the thread's out of an
// address.
func (s *cacheSearch) pointer(at formula) (found ThreadCache, rest formula, ok bool) {
	for _, t := range at.terms {
		if t.atom == 0 || t.times != 1 || s.all[t.atom-1].kind != load || s.all[t.atom-1].n != 8 {
			continue
		}
		slot, fixed, local := s.inThread(s.all[t.atom-1].of)
		if local && fixed.constant() {
			rest, _ = at.without(t.atom)
			return ThreadCache{Slot: slot, Fixed: int32(fixed.plus)}, rest, true
		}
	}
	return ThreadCache{}, formula{}, false
}

// tcache is glibc's: the load of a head, and an access to its list's word of 16 bits, one of them the last access.
func (s *cacheSearch) tcache() bool {
	for _, a := range s.way.accesses {
		if s.inTcache(a, s.last, a.isRead) || s.inTcache(s.last, a, false) {
			return true
		}
	}
	return false
}

// inTcache says whether a word and a head are of one list; counted: the word was read before.
func (s *cacheSearch) inTcache(word, head access, counted bool) bool {
	if word.bytes != 2 || head.bytes != 8 || !head.isRead {
		return false
	}
	found, list, ok := s.pointer(head.at)
	same, half, okWord := s.pointer(word.at)
	if !ok || !okWord || same != found || list.constant() {
		return false
	}
	entries, ok := list.add(half.times(-4))
	if !ok || !entries.constant() || counted && entries.plus != countedEntries || !counted && entries.plus != uncountedEntries {
		return false
	}
	found.Layout, found.First, found.Stride = CacheUncounted, int32(entries.plus), 8
	if counted {
		found.Layout = CacheCounted
	}
	s.cache = found
	return true
}

// class takes a size's class out of a formula that has it so many times.
func (s *cacheSearch) class(f formula) (table, stride, first int64, ok bool) {
	t := f.terms[0]
	if t.atom == 0 || f.terms[1].atom != 0 {
		return 0, 0, 0, false
	}
	class := s.all[t.atom-1]
	if class.kind != load || class.n != 1 || !s.isRounded(class.of.terms[0], 1) || class.of.terms[1].atom != 0 {
		return 0, 0, 0, false
	}
	return class.of.plus, t.times, f.plus, true
}

// isRounded says whether a term is so many times the size in units of 8 bytes, rounded up.
func (s *cacheSearch) isRounded(t term, times int64) bool {
	if t.atom == 0 || t.times != times {
		return false
	}
	units := s.all[t.atom-1]
	if units.kind != shifted || units.n != sizesPerClass || units.of.plus != 1<<sizesPerClass-1 {
		return false
	}
	size, ok := s.only(formula{terms: units.of.terms})
	return ok && size.kind == argument
}

// take keeps what was found, if it has the bounds that all such caches have.
func (s *cacheSearch) take(found ThreadCache, first, stride int64) bool {
	const far = 1 << 20
	if s.way.most >= maxLimit || first < -far || first > far || stride < 1 || stride >= 1<<16 {
		return false
	}
	found.First, found.Stride, found.Limit = int32(first), uint16(stride), uint32(s.way.most)
	s.cache = found
	return true
}

// takes says whether the last access takes the first block out of a list: its next one becomes the head.
func (s *cacheSearch) takes() bool {
	block := s.formula(atom{kind: load, n: 8, of: s.last.at})
	return s.last.bytes == 8 && !s.last.isRead && s.reads(s.last.at, 8) && s.reads(block, 8)
}

// lists are tcmalloc's.
func (s *cacheSearch) lists() bool {
	if !s.takes() {
		return false
	}
	found, rest, ok := s.pointer(s.last.at)
	table, stride, first, isClass := s.class(rest)
	if !ok || !isClass {
		return false
	}
	found.Layout, found.Table = CacheLists, table
	budget, ok := s.conditions(found)
	found.Budget = budget
	return ok && s.take(found, first, stride)
}

// conditions says what else of the cache decides before the list is looked at: ok is false
// where that isn't one word that bytes are taken from.
func (s *cacheSearch) conditions(of ThreadCache) (budget uint16, ok bool) {
	for _, a := range s.way.accesses {
		cache, rest, inCache := s.pointer(a.at)
		if !inCache || cache.Slot != of.Slot || cache.Fixed != of.Fixed || !rest.constant() {
			continue
		}
		if budget != 0 || a.isRead || a.bytes != 8 || rest.plus <= 0 || rest.plus >= 1<<16 {
			return 0, false
		}
		budget = uint16(rest.plus)
	}
	return budget, true
}

// stacks are jemalloc's: the last access is to a stack's end.
func (s *cacheSearch) stacks() bool {
	if s.last.bytes != 2 || !s.last.isRead {
		return false
	}
	stack := s.last.at
	stack.plus -= stackEmpty
	low := stack
	low.plus += stackLow
	if !s.reads(stack, 8) || !s.reads(s.formula(atom{kind: load, n: 8, of: stack}), 8) || !s.reads(low, 2) {
		return false
	}
	slot, rest, ok := s.inThread(stack)
	table, stride, first, isClass := s.class(rest)
	if !ok || !isClass || stride != stackSize || !s.hasBudget(slot, first) {
		return false
	}
	return s.take(ThreadCache{Layout: CacheStacks, Slot: slot, Table: table}, first, stride)
}

// hasBudget says whether two words of the thread's, and no others, decide before the first stack is looked at:
// how many bytes it has allocated, and how many it may.
func (s *cacheSearch) hasBudget(slot, first int64) bool {
	seen := 0
	for _, a := range s.way.accesses {
		of, rest, ok := s.inThread(a.at)
		if !ok || of != slot || !rest.constant() || !a.isRead {
			continue
		}
		if a.bytes != 8 || rest.plus != first-stackBudget && rest.plus != first-stackBudget+8 {
			return false
		}
		seen |= 1 << (rest.plus - first + stackBudget)
	}
	return seen == 1|1<<8
}

// reads says whether so many bytes were read there.
func (s *cacheSearch) reads(at formula, bytes int) bool {
	for _, a := range s.way.accesses {
		if a.isRead && a.bytes == bytes && a.at == at {
			return true
		}
	}
	return false
}

// pages are mimalloc's.
func (s *cacheSearch) pages() bool {
	head := s.last.at.plus
	page, ok := s.only(formula{terms: s.last.at.terms})
	if !ok || !s.takes() || head < 0 || head > 1024 || page.kind != load || page.n != 8 {
		return false
	}
	found, rest, ok := s.pointer(page.of)
	if !ok || !s.isRounded(rest.terms[0], 8) || rest.terms[1].atom != 0 {
		return false
	}
	if budget, ok := s.conditions(found); !ok || budget != 0 {
		return false
	}
	found.Layout, found.Head = CachePages, uint16(head)
	return s.take(found, rest.plus, 8)
}
