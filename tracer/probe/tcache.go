package probe

import "golang.org/x/arch/x86/x86asm"

// ThreadCache says where a malloc finds what it returns: at the head of one of
// the lists of free blocks that glibc keeps for each thread (tcache in
// malloc/malloc.c). The zero value stands for none.
type ThreadCache struct {
	Slot    int64  // where the word lies that holds the offset of the variable tcache from a thread's pointer, in bytes from the instruction at Offset
	Entries uint16 // where in the cache the heads of the lists lie
	Counted bool   // a list is empty where its count is 0, at the cache's beginning, 16 bits each; else where its head is
}

// The layouts of struct tcache_perthread_struct that are known: 64 lists of
// blocks of 16, 32, ... bytes and what lies before them.
const (
	countedEntries   = 64 * 2        // glibc 2.30 to 2.41: counts[64]
	uncountedEntries = (64 + 12) * 2 // from 2.42 on: num_slots[76], which doesn't say how many there are
)

// threadCache finds out where a malloc takes its results from, by following its
// code to where it loads one. Whatever isn't understood leads to none.
func (im *image) threadCache(s symbol, code body, from uint64) ThreadCache {
	if s.name != "malloc" || s.family != Glibc || code == nil || len(im.tlsSlots) == 0 {
		return ThreadCache{}
	}
	c := cacheSearch{im: im, code: make(map[uint64]x86Inst, len(code)), done: map[uint64]bool{}}
	for _, in := range code {
		c.code[in.addr] = in
	}
	use, ok := c.follow(code[0].addr)
	entries := use.entry.plus - 8*use.list.plus
	if known := use.counted && entries == countedEntries || !use.counted && entries == uncountedEntries; !ok || !known {
		return ThreadCache{}
	}
	return ThreadCache{Slot: int64(use.slot - from), Entries: uint16(entries), Counted: use.counted}
}

// origin is what is known of a register's value: the word of a slot, the cache
// that was found by it, or some value (id) plus a constant.
type origin struct {
	slot, cache uint64
	id          int
	plus        int64
}

// cachePath is a way through the function.
type cachePath struct {
	at      uint64
	regs    [16]origin
	list    origin // what the cache's words of 16 bits are indexed by; no id: nothing yet
	counted bool   // one of them was read before an entry
	slot    uint64 // of the cache
	entry   origin // what an entry was loaded by, plus where it lies, in bytes
}

// cacheSearch goes once over each instruction that can be reached, in the state
// in which it is first come to.
type cacheSearch struct {
	im   *image
	code map[uint64]x86Inst
	done map[uint64]bool
	ids  int
}

func (c *cacheSearch) fresh() origin {
	c.ids++
	return origin{id: c.ids}
}

// follow returns the first way on which an entry of a cache is loaded that its
// words of 16 bits tell of.
func (c *cacheSearch) follow(entry uint64) (use cachePath, ok bool) {
	first := cachePath{at: entry}
	for i := range first.regs {
		first.regs[i] = c.fresh()
	}
	paths := []cachePath{first}
	for len(paths) > 0 {
		p := paths[len(paths)-1]
		paths = paths[:len(paths)-1]
		for {
			in, known := c.code[p.at]
			if !known || c.done[p.at] {
				break
			}
			c.done[p.at] = true
			c.step(&p, in)
			if p.entry.id != 0 && p.entry.id == p.list.id {
				return p, true
			}
			f, target := in.flow()
			if f == flowBranch {
				branch := p
				branch.at = target
				paths = append(paths, branch)
			}
			p.at = in.next()
			if f == flowJump {
				p.at = target
			}
			if f == flowEnd {
				break
			}
		}
	}
	return cachePath{}, false
}

// step applies an instruction to what is known on a path.
func (c *cacheSearch) step(p *cachePath, in x86Inst) {
	for _, arg := range in.Args[:2] {
		if mem, ok := arg.(x86asm.Mem); ok && in.Op != x86asm.LEA {
			c.access(p, in, mem, arg == in.Args[1])
		}
	}
	value, to := c.result(p, in)
	switch f, _ := in.flow(); {
	case f == flowCall:
		for _, n := range []int{0, 1, 2, 6, 7, 8, 9, 10, 11} { // which callees may change
			p.regs[n] = c.fresh()
		}
	case f != flowNext || in.stores():
	case to >= 0:
		p.regs[to] = value
	default:
		c.forget(p, in)
	}
}

// stores says whether the instruction writes to memory and to no register.
func (in x86Inst) stores() bool {
	_, memory := in.Args[0].(x86asm.Mem)
	return memory && writesFirst[in.Op]
}

// forget forgets what an instruction changes: all, where that isn't known.
func (c *cacheSearch) forget(p *cachePath, in x86Inst) {
	e, known := effectOf(in)
	for n := range p.regs {
		if !known || e.writes&(1<<n) != 0 {
			p.regs[n] = c.fresh()
		}
	}
}

// result is the value that an instruction puts into register to, where that can be told; else to is negative.
func (c *cacheSearch) result(p *cachePath, in x86Inst) (value origin, to int) {
	to, ok := register(in.Args[0])
	if !ok || !full(in.Args[0]) || in.Op != x86asm.MOV && in.Op != x86asm.LEA {
		return origin{}, -1
	}
	switch from := in.Args[1].(type) {
	case x86asm.Reg:
		if n, general := register(from); general && full(from) {
			return p.regs[n], to
		}
	case x86asm.Mem:
		base, based := register(from.Base)
		switch at, relative := in.relative(from); {
		case in.Op == x86asm.MOV && relative && c.im.tlsSlots[at]:
			return origin{slot: at}, to
		case in.Op == x86asm.MOV && from.Segment == x86asm.FS && based && from.Index == 0 && from.Disp == 0 && p.regs[base].slot != 0:
			return origin{cache: p.regs[base].slot}, to
		case in.Op == x86asm.LEA && based && from.Index == 0 && p.regs[base].id != 0:
			v := p.regs[base]
			v.plus += from.Disp
			return v, to
		}
	}
	return origin{}, -1
}

// access notes a use of the cache: of a count, or the load of an entry.
func (c *cacheSearch) access(p *cachePath, in x86Inst, mem x86asm.Mem, isRead bool) {
	base, based := register(mem.Base)
	index, indexed := register(mem.Index)
	if !based || !indexed || p.regs[base].cache == 0 || p.regs[index].id == 0 {
		return
	}
	by := p.regs[index]
	switch {
	case mem.Scale == 2 && in.MemBytes == 2 && mem.Disp == 0 && p.list.id == 0:
		p.list, p.counted = by, isRead && p.entry.id == 0
	case mem.Scale == 8 && in.Op == x86asm.MOV && isRead && p.entry.id == 0:
		by.plus = by.plus*8 + mem.Disp
		p.entry, p.slot = by, p.regs[base].cache
	}
}
