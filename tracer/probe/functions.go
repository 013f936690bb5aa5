package probe

import (
	"slices"
	"strings"
)

// function is what is known of an allocation function by its name alone.
type function struct {
	name   string
	shape  Shape
	args   [3]uint8 // positions of Shape's arguments in the call, from 1; 0 is none
	group  group
	prefix string // of name, in a program that brings its allocator along
	rank   int    // lower is more telling, where one function has several names
}

// group says in which objects a function is an allocation function.
type group uint8

const (
	groupC       group = iota // wherever malloc and free are defined
	groupCXX                  // where the allocator brings its own operator new
	groupX                    // jemalloc's own interface
	groupMapping              // mmap and munmap
	groupMi                   // mimalloc's own interface, always prefixed
)

// prefixes are what programs that bring an allocator along put before its
// names, so that it stands beside the C library's: jemalloc in C programs and
// in Rust's, and mimalloc.
var prefixes = [...]string{"", "je_", "_rjem_", "mi_"}

// functionTable lists every function that may be probed, the most telling of
// several names for one function first.
var functionTable = []function{
	{name: "malloc", shape: Malloc, args: [3]uint8{1}},
	{name: "calloc", shape: Calloc, args: [3]uint8{1, 2}},
	{name: "realloc", shape: Realloc, args: [3]uint8{1, 2}},
	{name: "reallocarray", shape: Reallocarray, args: [3]uint8{1, 2, 3}},
	{name: "free", shape: Free, args: [3]uint8{1}},
	{name: "posix_memalign", shape: PosixMemalign, args: [3]uint8{1, 3}},
	{name: "aligned_alloc", shape: Malloc, args: [3]uint8{2}},
	{name: "memalign", shape: Malloc, args: [3]uint8{2}},
	{name: "valloc", shape: Malloc, args: [3]uint8{1}},
	{name: "pvalloc", shape: Malloc, args: [3]uint8{1}},
	{name: "cfree", shape: Free, args: [3]uint8{1}},

	{name: "mallocx", shape: Malloc, args: [3]uint8{1}, group: groupX},
	{name: "rallocx", shape: Realloc, args: [3]uint8{1, 2}, group: groupX},
	{name: "sdallocx", shape: Free, args: [3]uint8{1}, group: groupX},
	{name: "dallocx", shape: Free, args: [3]uint8{1}, group: groupX},

	{name: "zalloc", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "malloc_small", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "zalloc_small", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "malloc_aligned", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "zalloc_aligned", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "realloc_aligned", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "new", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "new_aligned", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "new_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "new_aligned_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "free_size", shape: Free, args: [3]uint8{1}, group: groupMi},
	{name: "free_aligned", shape: Free, args: [3]uint8{1}, group: groupMi},
	{name: "free_size_aligned", shape: Free, args: [3]uint8{1}, group: groupMi},

	{name: "_Znwm", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_Znam", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnwmRKSt9nothrow_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnamRKSt9nothrow_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnwmSt11align_val_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnamSt11align_val_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnwmSt11align_val_tRKSt9nothrow_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnamSt11align_val_tRKSt9nothrow_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdlPv", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdaPv", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdlPvm", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdaPvm", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdlPvRKSt9nothrow_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdaPvRKSt9nothrow_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdlPvSt11align_val_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdaPvSt11align_val_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdlPvSt11align_val_tRKSt9nothrow_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdaPvSt11align_val_tRKSt9nothrow_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdlPvmSt11align_val_t", shape: Free, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZdaPvmSt11align_val_t", shape: Free, args: [3]uint8{1}, group: groupCXX},

	{name: "mmap", shape: Mmap, args: [3]uint8{2}, group: groupMapping},
	{name: "mmap64", shape: Mmap, args: [3]uint8{2}, group: groupMapping},
	{name: "munmap", shape: Munmap, args: [3]uint8{1, 2}, group: groupMapping},
}

// functionsByName indexes functionTable, under every prefix that a name may
// have.
var functionsByName = indexFunctions()

func indexFunctions() map[string]function {
	byName := map[string]function{}
	for i, prefix := range prefixes {
		for rank, fn := range functionTable {
			if !fn.takes(prefix) {
				continue
			}
			fn.name, fn.prefix, fn.rank = prefix+fn.name, prefix, rank+i*len(functionTable)
			byName[fn.name] = fn
		}
	}
	return byName
}

// takes says whether the function is known under a prefix.
func (fn function) takes(prefix string) bool {
	switch fn.group {
	case groupC:
		return true
	case groupX:
		return prefix != "mi_"
	case groupMi:
		return prefix == "mi_"
	}
	return prefix == ""
}

// prefixed says whether a name has one of the prefixes.
func prefixed(name string) bool {
	return slices.ContainsFunc(prefixes[1:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
