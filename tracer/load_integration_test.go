//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"testing"
)

// Each kernel's verifier takes the programs of each mechanism that it has, for
// each way to unwind, at the least and the largest depth.
func TestEveryVariantLoads(t *testing.T) {
	loaded := 0
	depths := []int{MaxStackDepth, 1}
	if testing.Short() {
		depths = depths[:1]
	}
	for _, m := range []Mechanism{Session, Multi, PerfCookie, Perf} {
		for _, u := range []Unwinder{UnwindDwarf, UnwindFP, UnwindNone} {
			for _, depth := range depths {
				sampling := depth == MaxStackDepth // the larger program of the two
				tr, err := New(Config{Mechanism: m, Unwind: u, StackDepth: depth, RingBytes: 1 << 20, Sampling: sampling, Pressure: 64 << 10})
				if errors.Is(err, ErrNotSupported) {
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", fmt.Sprint(m, " ", u, " ", depth), err)
					continue
				}
				loaded++
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if loaded == 0 {
		t.Error("nothing was loaded")
	}
}
