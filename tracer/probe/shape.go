package probe

// Shape says what a function takes and returns, as far as the BPF programs
// must know. The values are a contract with bpf/.
type Shape uint8

const (
	ShapeNone     Shape = iota
	Malloc              // (size) returns a block
	Calloc              // (n, m) returns a block of n × m bytes
	Realloc             // (old, size) returns a block in place of old
	Reallocarray        // (old, n, m) returns a block in place of old
	Free                // (ptr)
	PosixMemalign       // (out, size) returns 0 and stores a block at out
	Mmap                // (size) returns the address of a mapping; without the argument, of a System V segment
	Munmap              // (addr, size); without a size, of a System V segment
	Release             // (ptr), and the releases within it may be part of it
	Resize              // (ptr, size, extra) returns the size that the block then has, in place
	PoolAlloc           // (size, pool) returns a block of the pool
	PoolCurrent         // (size) returns a block of the pool that a variable holds
	PoolBegin           // (parent, name) returns a pool
	PoolBeginOut        // (out, parent) returns 0 and stores a pool at out
	PoolChange          // (pool, other pool or name): see event.Change
	Mremap              // (old, size, new size) returns the address of the mapping
	Brk                 // (end) moves the program break there
	Sbrk                // (increment) moves the program break by so much and returns where it was
	MarkAlloc           // a USDT probe: block, size and, if the program samples, what it stands for
	MarkFree            // a USDT probe: block
)

var shapeNames = [...]string{
	ShapeNone: "none", Malloc: "malloc", Calloc: "calloc", Realloc: "realloc",
	Reallocarray: "reallocarray", Free: "free", PosixMemalign: "posix_memalign",
	Mmap: "mmap", Munmap: "munmap", Release: "release", Resize: "resize",
	PoolAlloc: "pool_alloc", PoolCurrent: "pool_alloc", PoolBegin: "pool_begin", PoolBeginOut: "pool_begin", PoolChange: "pool_change",
	Mremap: "mremap", Brk: "brk", Sbrk: "sbrk", MarkAlloc: "usdt_alloc", MarkFree: "usdt_free",
}

// String returns the name of the C function that has the shape, of other shapes a word.
func (s Shape) String() string {
	if int(s) < len(shapeNames) {
		return shapeNames[s]
	}
	return "unknown"
}

// HasReturn says whether the function's return must be seen too.
func (s Shape) HasReturn() bool {
	return s != ShapeNone && !s.releases() && !s.IsMark()
}

// IsMark says whether it is that of a USDT probe instead of a function.
func (s Shape) IsMark() bool { return s == MarkAlloc || s == MarkFree }

// maps says whether the function has the kernel map or unmap memory, whoever's
// allocator is traced.
func (s Shape) maps() bool {
	return s == Mmap || s == Munmap || s >= Mremap && s <= Sbrk
}

// OfBlocks says whether the function hands out, resizes or releases blocks, rather than maps memory or makes pools.
func (p *Probe) OfBlocks() bool { return p.Shape != ShapeNone && !p.Shape.maps() }

// OnlyFrees says whether the function releases a block and does no more.
func (p *Probe) OnlyFrees() bool { return p.Shape == Free }

// releases says whether the function gives memory back and no more, so that
// its entry tells everything and no depth is kept for it.
func (s Shape) releases() bool {
	return s == Free || s == Munmap
}

// Cost says how the kernel executes the probed instruction.
type Cost uint8

const (
	Emulated Cost = iota // by the kernel itself, on every kernel from 5.10 on
	Stepped              // single-stepped out of line: some thirty times dearer
)

// String returns "emulated" or "stepped".
func (c Cost) String() string {
	if c == Emulated {
		return "emulated"
	}
	return "stepped"
}

// Reg is the register that holds an argument at the probed instruction. The
// values are a contract with bpf/: 0 is none; on amd64 1 is rdi and so forth,
// as listed below; on arm64 1+n is xn for n from 0 to 14.
type Reg uint8

const (
	RegNone Reg = iota
	RegRDI
	RegRSI
	RegRDX
	RegRCX
	RegR8
	RegR9
	RegRAX
	RegRBX
	RegRBP
	RegR10
	RegR11
	RegR12
	RegR13
	RegR14
	RegR15
)

var amd64RegNames = [...]string{
	"none", "rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "rbx", "rbp",
	"r10", "r11", "r12", "r13", "r14", "r15",
}

// String returns the amd64 name of the register.
func (r Reg) String() string {
	if int(r) < len(amd64RegNames) {
		return amd64RegNames[r]
	}
	return "unknown"
}
