package probe

// function is what is known of an allocation function by its name alone.
type function struct {
	name  string
	shape Shape
	args  [3]uint8 // positions of Shape's arguments in the call, from 1; 0 is none
	group group
	rank  int // lower is more telling, where one function has several names
}

// group says in which objects a function is an allocation function.
type group uint8

const (
	groupC       group = iota // wherever malloc and free are defined
	groupCXX                  // where the allocator brings its own operator new
	groupX                    // jemalloc's own interface
	groupMapping              // mmap and munmap
)

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

// functionsByName indexes functionTable.
var functionsByName = indexFunctions()

func indexFunctions() map[string]function {
	byName := make(map[string]function, len(functionTable))
	for i, fn := range functionTable {
		fn.rank = i
		byName[fn.name] = fn
	}
	return byName
}
