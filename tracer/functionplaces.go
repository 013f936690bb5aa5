package tracer

import (
	"os"
	"strings"
	"sync"
)

// functionPlaces remembers where in files functions begin: to read the symbols of a C library
// takes milliseconds, for which each child would stand still.
type functionPlaces struct {
	mu    sync.Mutex
	known map[placesKey][]uint64
}

// placesKey is one state of a file, and the names of the functions.
type placesKey struct {
	file  fileIdentity
	names string
}

// maxPlaces bounds the files that are remembered.
const maxPlaces = 1 << 10

// of is functionOffsets. The caller must not change what it returns.
func (p *functionPlaces) of(f *os.File, names []string) ([]uint64, error) {
	facts, err := factsOf(f)
	if err != nil {
		return nil, err
	}
	if facts.fuse { // it may say that it is any file
		return functionOffsets(f, names)
	}
	key := placesKey{facts.identity(), strings.Join(names, " ")}
	p.mu.Lock()
	offsets, known := p.known[key]
	p.mu.Unlock()
	if known {
		return offsets, nil
	}
	offsets, err = functionOffsets(f, names)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = make(map[placesKey][]uint64)
	}
	p.known[key] = offsets
	return offsets, nil
}
