package symbol

// A generation of a cache is bounded in entries, and in bytes, as names are the target's.
const (
	maxCached      = 1 << 15
	maxCachedBytes = 32 << 20
)

// cacheKey is an address of a module.
type cacheKey struct {
	module *module
	addr   uint64
}

// generations is a cache of two generations: what was not asked for during a
// whole generation is dropped. It is not locked.
type generations[K comparable, V any] struct {
	young, old map[K]V
	bytes      int         // of the young ones
	size       func(V) int // of an entry, where that differs
}

func (g *generations[K, V]) get(k K) (v V, ok bool) {
	if v, ok = g.young[k]; ok {
		return v, true
	}
	if v, ok = g.old[k]; ok {
		g.put(k, v)
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, v V) {
	if g.young == nil {
		g.young = map[K]V{}
	}
	if len(g.young) >= maxCached || g.bytes >= maxCachedBytes {
		g.old, g.young, g.bytes = g.young, map[K]V{}, 0
	}
	g.young[k] = v
	if g.size != nil {
		g.bytes += g.size(v)
	}
}
