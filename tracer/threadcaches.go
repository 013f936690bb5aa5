package tracer

import (
	"fmt"
	"math"
	"sync"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// threadCaches are the places in the kernel half's array of where the results
// of mallocs can be found before they return. The first place stands for none.
type threadCaches struct {
	mu     sync.Mutex
	places map[probe.ThreadCache]uint8
}

// place returns where a cache is in the array, and puts it there. Without room
// left it is none: the returns are probed then.
func (v *threadCaches) place(k *kernelHalf, c probe.ThreadCache) (uint8, error) {
	if c == (probe.ThreadCache{}) {
		return 0, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.places[c]; ok {
		return at, nil
	}
	at := len(v.places) + 1
	if at > math.MaxUint8 {
		return 0, nil
	}
	value := bpf.MemtraceThreadCache{Slot: c.Slot, Entries: uint32(c.Entries)}
	if c.Counted {
		value.Counted = 1
	}
	if err := k.coll.Maps[bpf.MemtraceMapThreadCaches].Put(uint32(at), value); err != nil {
		return 0, fmt.Errorf("tell where malloc's results are found: %w", err)
	}
	if v.places == nil {
		v.places = make(map[probe.ThreadCache]uint8)
	}
	v.places[c] = uint8(at)
	return uint8(at), nil
}
