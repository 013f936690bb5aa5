package tracer

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/memtrace/memtrace/bpf"
)

// poolVariables are the places in the kernel half's array of the distances at
// which variables lie that hold a pool. The first place stands for none.
type poolVariables struct {
	mu     sync.Mutex
	places map[int64]uint8
}

// place returns where a distance is in the array, and puts it there.
func (v *poolVariables) place(k *kernelHalf, distance int64) (uint8, error) {
	if distance == 0 {
		return 0, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.places[distance]; ok {
		return at, nil
	}
	at := len(v.places) + 1
	if at > math.MaxUint8 {
		return 0, errors.New("too many different programs have a variable that holds a pool: trace fewer at a time")
	}
	if err := k.coll.Maps[bpf.MemtraceMapPoolVariables].Put(uint32(at), distance); err != nil {
		return 0, fmt.Errorf("tell where the variable lies that holds the pool: %w", err)
	}
	if v.places == nil {
		v.places = make(map[int64]uint8)
	}
	v.places[distance] = uint8(at)
	return uint8(at), nil
}
