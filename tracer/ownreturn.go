package tracer

import (
	"slices"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// ownReturns are the places at which the functions that keep their return address return: each once, though functions
// share them. The others need return probes.
func ownReturns(probes []probe.Probe) (places []uint64, others []probe.Probe) {
	for _, p := range probes {
		if p.KeepsReturn {
			places = append(places, p.Returns...)
		} else {
			others = append(others, p)
		}
	}
	slices.Sort(places)
	return slices.Compact(places), others
}

// attachOwnReturns probes those places. They need no cookie: whose return it is, the thread's state tells.
func (t *Tracer) attachOwnReturns(a *attachment, path string, pid int, places []uint64) error {
	if len(places) == 0 {
		return nil
	}
	if !a.mechanism.perThread() {
		multi := make([]multiPlace, len(places))
		for i, at := range places {
			multi[i].offset = at
		}
		l, err := attachMulti(t.kernel.program(bpf.MemtraceProgMultiOwnReturn), attachUprobeMulti, false, path, uint32(pid), multi)
		if err == nil {
			a.allocs = append(a.allocs, l)
		}
		return err
	}
	probes := make([]probe.Probe, len(places))
	for i, at := range places {
		probes[i] = probe.Probe{Name: "a return", Shape: probe.Malloc, Offset: at}
	}
	return t.perf(a, &a.allocs, bpf.MemtraceProgPerfOwnReturn, false, path, pid, probes)
}
