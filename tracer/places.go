package tracer

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// errNoPlace: an array of the kernel half's is full.
var errNoPlace = errors.New("no room left")

// places are those of values in an array of the kernel half's, which is filled
// from the place first on. Values with equal keys share one.
type places[K comparable] struct {
	mu    sync.Mutex
	first uint32
	at    map[K]uint32
}

// place returns where the value of a key is in the array, and puts it there.
// Errors: errNoPlace.
func (p *places[K]) place(array *ebpf.Map, key K, value any) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.at[key]; ok {
		return at, nil
	}
	at := p.first + uint32(len(p.at))
	if at >= array.MaxEntries() {
		return 0, errNoPlace
	}
	if err := array.Put(at, value); err != nil {
		return 0, fmt.Errorf("tell the kernel's half: %w", err)
	}
	if p.at == nil {
		p.at = make(map[K]uint32)
	}
	p.at[key] = at
	return at, nil
}

// empty says whether nothing has a place yet.
func (p *places[K]) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.at) == 0
}
