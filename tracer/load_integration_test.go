//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/memtrace/memtrace/bpf"
)

// Each kernel's verifier takes the programs of each mechanism that it has, for
// each way to unwind, at the least and the largest depth.
func TestEveryVariantLoads(t *testing.T) {
	t.Parallel()
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
				if err := loadMarks(tr); err != nil {
					t.Errorf("USDT probes of %s: %v", fmt.Sprint(m, " ", u, " ", depth), err)
				}
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

// loadMarks loads what a USDT probe needs, as attaching to one does.
func loadMarks(tr *Tracer) error {
	switch tr.config.Mechanism {
	case Session, Multi:
		return tr.kernel.more([]string{bpf.MemtraceProgMultiMark, bpf.MemtraceProgMultiCodeFreed})
	case PerfCookie:
		return tr.kernel.more([]string{bpf.MemtraceProgPerfMark})
	}
	p, err := tr.kernel.loadWithCookie(bpf.MemtraceProgPerfMark, 1)
	if err != nil {
		return err
	}
	return p.Close()
}
