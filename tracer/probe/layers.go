package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/tracer/event"
)

// layer is an allocator that a well-known program or runtime has over malloc.
type layer struct {
	allocs, frees []string
	// thin is the largest size of its functions, in bytes of code, where they
	// only pass on to an allocator that others reach through them. Compilers
	// that inlined that into them have inlined it elsewhere too, where it is
	// not seen.
	thin   uint64
	remedy string
	pools  []UserFunction // and what else a text can't say
	// alone: it tells of blocks that are malloc's as well. To trace both would
	// count them twice.
	alone bool
}

// layers are those that may be named.
var layers = map[string]layer{
	// CPython, Objects/obmalloc.c: pymalloc and its arenas are within these.
	"python": {
		allocs: []string{
			"PyObject_Malloc:size=0", "PyObject_Calloc:size=0*1", "PyObject_Realloc:ptr=0,size=1",
			"PyMem_Malloc:size=0", "PyMem_Calloc:size=0*1", "PyMem_Realloc:ptr=0,size=1",
		},
		frees:  []string{"PyObject_Free:ptr=0", "PyMem_Free:ptr=0"},
		thin:   96,
		remedy: "start the program with PYTHONMALLOC=malloc in its environment and trace malloc",
	},
	// GLib, glib/gmem.c and gslice.c: g_malloc_n and its kin jump to these, and
	// g_free to free.
	"glib": {
		allocs: []string{
			"g_malloc:size=0", "g_malloc0:size=0", "g_realloc:ptr=0,size=1",
			"g_try_malloc:size=0", "g_try_malloc0:size=0", "g_try_realloc:ptr=0,size=1", "g_aligned_alloc:size=0*1",
			"g_slice_alloc:size=0", "g_slice_alloc0:size=0", "g_slice_copy:size=0",
		},
		frees: []string{"g_slice_free1:ptr=1"},
		pools: []UserFunction{poolChange("g_slice_free_chain_with_offset", event.ChainFreed, 2, 3)},
	},
	// The Apache Portable Runtime, memory/unix/apr_pools.c: what has no tag is
	// called after the function that made it.
	"apr": {
		allocs: []string{"apr_palloc:pool=0,size=1", "apr_pcalloc:pool=0,size=1"},
		pools: []UserFunction{
			poolBeginOut("apr_pool_create_ex", 1, 2), poolBeginOut("apr_pool_create_unmanaged_ex", 1), poolBeginOut("apr_pool_create_core_ex", 1),
			poolChange("apr_pool_clear", event.PoolCleared, 1), poolChange("apr_pool_destroy", event.PoolEnded, 1),
			poolChange("apr_pool_tag", event.PoolNamed, 1, 2),
		},
	},
	// OpenTelemetry's contract for USDT probes of allocators
	// (open-telemetry/opentelemetry-ebpf-profiler, design-docs/00003-memory-profiling):
	// alloc(block, size, weight) of blocks in a sample that the program takes itself,
	// free(block) of those. Without a weight every block is told of.
	"otel_memory": {
		allocs: []string{"usdt:otel_memory:alloc:block=0,size=1,weight=2"},
		frees:  []string{"usdt:otel_memory:free:ptr=0"},
		alone:  true,
	},
	// PostgreSQL, src/backend/utils/mmgr/mcxt.c: memory contexts are pools, in
	// which palloc takes the current one.
	"postgres": {
		allocs: []string{
			"palloc:size=0,pool=CurrentMemoryContext", "palloc0:size=0,pool=CurrentMemoryContext",
			"palloc_extended:size=0,pool=CurrentMemoryContext",
			"MemoryContextAlloc:pool=0,size=1", "MemoryContextAllocZero:pool=0,size=1",
			"MemoryContextAllocZeroAligned:pool=0,size=1", // up to 16
			"MemoryContextAllocExtended:pool=0,size=1", "MemoryContextAllocHuge:pool=0,size=1",
			"MemoryContextAllocAligned:pool=0,size=1", // from 16 on
			"repalloc:ptr=0,size=1", "repalloc_extended:ptr=0,size=1", "repalloc_huge:ptr=0,size=1",
		},
		frees: []string{"pfree:ptr=0"},
		pools: []UserFunction{
			poolBegin("AllocSetContextCreateInternal", 1, 2), poolBegin("SlabContextCreate", 1, 2),
			poolBegin("GenerationContextCreate", 1, 2), poolBegin("BumpContextCreate", 1, 2), // from 17 on
			poolChange("MemoryContextReset", event.PoolCleared, 1), poolChange("MemoryContextResetOnly", event.PoolClearedAlone, 1),
			poolChange("MemoryContextResetChildren", event.PoolChildrenCleared, 1),
			poolChange("MemoryContextDelete", event.PoolEnded, 1),
			poolChange("MemoryContextDeleteChildren", event.PoolChildrenEnded, 1),
			poolChange("MemoryContextSetParent", event.PoolMoved, 1, 2),
		},
	},
}

// Layers names the layers that Layer knows.
func Layers() []string { return slices.Sorted(maps.Keys(layers)) }

// Layer returns the functions of a layer.
func Layer(name string) ([]UserFunction, error) {
	l, ok := layers[name]
	if !ok {
		return nil, fmt.Errorf("%q is none of %s", name, strings.Join(Layers(), ", "))
	}
	var all []UserFunction
	add := func(texts []string, parse func(string) (UserFunction, error)) error {
		for _, text := range texts {
			f, err := parse(text)
			if err != nil {
				return fmt.Errorf("layer %s: %w", name, err)
			}
			f.Layer, f.lenient = name, true
			all = append(all, f)
		}
		return nil
	}
	if err := add(l.allocs, ParseAllocFunction); err != nil {
		return nil, err
	}
	if err := add(l.frees, ParseFreeFunction); err != nil {
		return nil, err
	}
	for _, f := range l.pools {
		f.Layer = name
		all = append(all, f)
	}
	return all, nil
}

// LayerHas reports whether a USDT probe is one of a layer's.
func LayerHas(name string, p StaticProbe) bool {
	functions, err := Layer(name)
	return err == nil && slices.ContainsFunc(functions, func(f UserFunction) bool { return f.Mark == p.name() })
}

// poolBegin is a function that returns a pool; args are the positions of its
// parent and its name, from 1.
func poolBegin(symbol string, args ...uint8) UserFunction {
	f := UserFunction{Text: symbol, Symbol: symbol}
	f.set(PoolBegin, args...)
	return f
}

// poolBeginOut is a function that stores a pool; args are the positions of
// where to, and of its parent, from 1.
func poolBeginOut(symbol string, args ...uint8) UserFunction {
	f := UserFunction{Text: symbol, Symbol: symbol}
	f.set(PoolBeginOut, args...)
	return f
}

// poolChange is a function that changes a pool; args are the positions of that
// and of what goes with the change, from 1.
func poolChange(symbol string, change event.Change, args ...uint8) UserFunction {
	f := UserFunction{Text: symbol, Symbol: symbol, Pool: poolUse{change: change}}
	f.set(PoolChange, args...)
	return f
}

// inlined says why a function of a layer would not show all, "" if it would.
func (f UserFunction) inlined(size uint64) string {
	l := layers[f.Layer]
	if l.thin == 0 || size <= l.thin {
		return ""
	}
	return "the compiler has inlined the allocator, here and elsewhere, so that not all would be seen: " + l.remedy
}
