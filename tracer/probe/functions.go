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
	align  uint8    // position of the alignment, of a Malloc that in glibc leaves small ones to malloc; 0: none
	throws bool     // it throws an exception where it fails
	pool   poolUse
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
	groupMapping              // mmap, munmap and the like
	groupMi                   // mimalloc's own interface, always prefixed
	groupTc                   // tcmalloc's own interface, always prefixed
	groupRp                   // rpmalloc's own interface, always prefixed
	groupMoz                  // of Mozilla's allocator: the first argument is an arena
	groupRust                 // what Rust programs with an allocator of their own call
)

// prefixes are what programs that bring an allocator along put before its
// names, so that it stands beside the C library's: jemalloc in C programs and
// in Rust's, mimalloc and tcmalloc.
var prefixes = [...]string{"", "je_", "_rjem_", "mi_", "tc_", "rp"}

// functionTable lists every function that may be probed, the most telling of
// several names for one function first.
var functionTable = []function{
	{name: "malloc", shape: Malloc, args: [3]uint8{1}},
	{name: "calloc", shape: Calloc, args: [3]uint8{1, 2}},
	{name: "realloc", shape: Realloc, args: [3]uint8{1, 2}},
	{name: "reallocarray", shape: Reallocarray, args: [3]uint8{1, 2, 3}},
	{name: "free", shape: Free, args: [3]uint8{1}},
	{name: "posix_memalign", shape: PosixMemalign, args: [3]uint8{1, 3}},
	{name: "aligned_alloc", shape: Malloc, args: [3]uint8{2}, align: 1},
	{name: "memalign", shape: Malloc, args: [3]uint8{2}, align: 1},
	{name: "valloc", shape: Malloc, args: [3]uint8{1}},
	{name: "pvalloc", shape: Malloc, args: [3]uint8{1}},
	{name: "cfree", shape: Free, args: [3]uint8{1}},
	{name: "free_sized", shape: Free, args: [3]uint8{1}},         // C23
	{name: "free_aligned_sized", shape: Free, args: [3]uint8{1}}, // C23

	{name: "mallocx", shape: Malloc, args: [3]uint8{1}, group: groupX},
	{name: "rallocx", shape: Realloc, args: [3]uint8{1, 2}, group: groupX},
	{name: "xallocx", shape: Resize, args: [3]uint8{1, 2, 3}, group: groupX},
	{name: "sdallocx", shape: Free, args: [3]uint8{1}, group: groupX},
	{name: "dallocx", shape: Free, args: [3]uint8{1}, group: groupX},

	{name: "zalloc", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "mallocn", shape: Calloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "malloc_small", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "zalloc_small", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "reallocn", shape: Reallocarray, args: [3]uint8{1, 2, 3}, group: groupMi},
	{name: "reallocf", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "rezalloc", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "recalloc", shape: Reallocarray, args: [3]uint8{1, 2, 3}, group: groupMi},
	{name: "malloc_aligned", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "zalloc_aligned", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "calloc_aligned", shape: Calloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "realloc_aligned", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "rezalloc_aligned", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "recalloc_aligned", shape: Reallocarray, args: [3]uint8{1, 2, 3}, group: groupMi},
	{name: "malloc_aligned_at", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "zalloc_aligned_at", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "calloc_aligned_at", shape: Calloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "realloc_aligned_at", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "rezalloc_aligned_at", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "recalloc_aligned_at", shape: Reallocarray, args: [3]uint8{1, 2, 3}, group: groupMi},
	{name: "heap_malloc", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_zalloc", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_calloc", shape: Calloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_mallocn", shape: Calloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_malloc_small", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_realloc", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_reallocn", shape: Reallocarray, args: [3]uint8{2, 3, 4}, group: groupMi},
	{name: "heap_reallocf", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_rezalloc", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_recalloc", shape: Reallocarray, args: [3]uint8{2, 3, 4}, group: groupMi},
	{name: "heap_malloc_aligned", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_zalloc_aligned", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_calloc_aligned", shape: Calloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_realloc_aligned", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_rezalloc_aligned", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_recalloc_aligned", shape: Reallocarray, args: [3]uint8{2, 3, 4}, group: groupMi},
	{name: "heap_malloc_aligned_at", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_zalloc_aligned_at", shape: Malloc, args: [3]uint8{2}, group: groupMi},
	{name: "heap_calloc_aligned_at", shape: Calloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_realloc_aligned_at", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_rezalloc_aligned_at", shape: Realloc, args: [3]uint8{2, 3}, group: groupMi},
	{name: "heap_recalloc_aligned_at", shape: Reallocarray, args: [3]uint8{2, 3, 4}, group: groupMi},
	{name: "heap_alloc_new", shape: Malloc, args: [3]uint8{2}, group: groupMi, throws: true},
	{name: "heap_alloc_new_n", shape: Calloc, args: [3]uint8{2, 3}, group: groupMi, throws: true},
	{name: "new", shape: Malloc, args: [3]uint8{1}, group: groupMi, throws: true},
	{name: "new_n", shape: Calloc, args: [3]uint8{1, 2}, group: groupMi, throws: true},
	{name: "new_aligned", shape: Malloc, args: [3]uint8{1}, group: groupMi, throws: true},
	{name: "new_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "new_aligned_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupMi},
	{name: "new_realloc", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi, throws: true},
	{name: "new_reallocn", shape: Reallocarray, args: [3]uint8{1, 2, 3}, group: groupMi, throws: true},
	{name: "expand", shape: Realloc, args: [3]uint8{1, 2}, group: groupMi},
	{name: "free_size", shape: Free, args: [3]uint8{1}, group: groupMi},
	{name: "free_aligned", shape: Free, args: [3]uint8{1}, group: groupMi},
	{name: "free_size_aligned", shape: Free, args: [3]uint8{1}, group: groupMi},

	{name: "new", shape: Malloc, args: [3]uint8{1}, group: groupTc, throws: true},
	{name: "new_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupTc},
	{name: "new_aligned", shape: Malloc, args: [3]uint8{1}, group: groupTc, throws: true},
	{name: "new_aligned_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupTc},
	{name: "newarray", shape: Malloc, args: [3]uint8{1}, group: groupTc, throws: true},
	{name: "newarray_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupTc},
	{name: "newarray_aligned", shape: Malloc, args: [3]uint8{1}, group: groupTc, throws: true},
	{name: "newarray_aligned_nothrow", shape: Malloc, args: [3]uint8{1}, group: groupTc},
	{name: "delete", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "delete_sized", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "delete_nothrow", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "delete_aligned", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "delete_sized_aligned", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "delete_aligned_nothrow", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "deletearray", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "deletearray_sized", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "deletearray_nothrow", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "deletearray_aligned", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "deletearray_sized_aligned", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "deletearray_aligned_nothrow", shape: Free, args: [3]uint8{1}, group: groupTc},
	{name: "malloc_skip_new_handler", shape: Malloc, args: [3]uint8{1}, group: groupTc},

	{name: "aligned_calloc", shape: Calloc, args: [3]uint8{2, 3}, group: groupRp},
	{name: "aligned_realloc", shape: Realloc, args: [3]uint8{1, 3}, group: groupRp},

	{name: "moz_arena_malloc", shape: Malloc, args: [3]uint8{2}, group: groupMoz},
	{name: "moz_arena_calloc", shape: Calloc, args: [3]uint8{2, 3}, group: groupMoz},
	{name: "moz_arena_realloc", shape: Realloc, args: [3]uint8{2, 3}, group: groupMoz},
	{name: "moz_arena_memalign", shape: Malloc, args: [3]uint8{3}, group: groupMoz},
	{name: "moz_arena_free", shape: Free, args: [3]uint8{2}, group: groupMoz},

	{name: "_Znwm", shape: Malloc, args: [3]uint8{1}, group: groupCXX, throws: true},
	{name: "_Znam", shape: Malloc, args: [3]uint8{1}, group: groupCXX, throws: true},
	{name: "_ZnwmRKSt9nothrow_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnamRKSt9nothrow_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX},
	{name: "_ZnwmSt11align_val_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX, throws: true},
	{name: "_ZnamSt11align_val_t", shape: Malloc, args: [3]uint8{1}, group: groupCXX, throws: true},
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

	{name: "__rust_alloc", shape: Malloc, args: [3]uint8{1}, group: groupRust},
	{name: "__rust_alloc_zeroed", shape: Malloc, args: [3]uint8{1}, group: groupRust},
	{name: "__rust_realloc", shape: Realloc, args: [3]uint8{1, 4}, group: groupRust},
	{name: "__rust_dealloc", shape: Release, args: [3]uint8{1}, group: groupRust},

	{name: "mmap", shape: Mmap, args: [3]uint8{2}, group: groupMapping},
	{name: "mmap64", shape: Mmap, args: [3]uint8{2}, group: groupMapping},
	{name: "munmap", shape: Munmap, args: [3]uint8{1, 2}, group: groupMapping},
	{name: "mremap", shape: Mremap, args: [3]uint8{1, 2, 3}, group: groupMapping},
	{name: "brk", shape: Brk, args: [3]uint8{1}, group: groupMapping},
	{name: "sbrk", shape: Sbrk, args: [3]uint8{1}, group: groupMapping},
	{name: "shmat", shape: Mmap, group: groupMapping},
	{name: "shmdt", shape: Munmap, args: [3]uint8{1}, group: groupMapping},
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
		return prefix != "mi_" && prefix != "tc_" && prefix != "rp"
	case groupMi:
		return prefix == "mi_"
	case groupTc:
		return prefix == "tc_"
	case groupRp:
		return prefix == "rp"
	}
	return prefix == ""
}

// prefixed says whether a name has one of the prefixes, or is Rust's.
func prefixed(name string) bool {
	return strings.HasPrefix(name, rustPrefix) || name == rustOwn || name == rustDefault || slices.ContainsFunc(prefixes[1:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
