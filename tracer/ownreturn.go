package tracer

import (
	"slices"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// byReturn tells functions that keep their return address from those whose returns are seen by replacing it.
func byReturn(probes []probe.Probe) (keeping, replaced []probe.Probe) {
	for _, p := range probes {
		if p.KeepsReturn {
			keeping = append(keeping, p)
		} else {
			replaced = append(replaced, p)
		}
	}
	return keeping, replaced
}

// ownReturns are the places at which functions return by their own instructions: each once, though functions share them.
func ownReturns(keeping []probe.Probe) (places []uint64) {
	for _, p := range keeping {
		places = append(places, p.Returns...)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// attachKeeping probes functions that keep their return address: their returns first, so that no call waits for one
// that isn't seen. There must be no session: another trace's of the same function replaces the return address in every
// process that has a probe there, whosever it is; a probe of the entry alone does not. The programs are loaded when they are needed first:
// to check them takes longer than all else of an attach.
func (t *Tracer) attachKeeping(a *attachment, pid int, path string, keeping []probe.Probe) error {
	if len(keeping) == 0 {
		return nil
	}
	places := ownReturns(keeping)
	if a.mechanism.perThread() {
		return t.attachKeepingByPerf(a, pid, path, keeping, places)
	}
	if err := t.kernel.more([]string{bpf.MemtraceProgMultiAlloc, bpf.MemtraceProgMultiOwnReturn}); err != nil {
		return err
	}
	if len(places) > 0 {
		multi := make([]multiPlace, len(places))
		for i, at := range places {
			multi[i].offset = at // no cookie: whose return it is, the thread's state tells
		}
		anchored(path, multi[0].offset)
		l, err := attachMulti(t.kernel.program(bpf.MemtraceProgMultiOwnReturn), attachUprobeMulti, false, path, uint32(pid), multi)
		if err != nil {
			return err
		}
		a.allocs = append(a.allocs, l)
	}
	entry, err := t.multi(bpf.MemtraceProgMultiAlloc, attachUprobeMulti, false, path, pid, keeping)
	if err == nil {
		a.allocs = slices.Insert(a.allocs, 0, entry)
	}
	return err
}

// attachKeepingByPerf is attachKeeping with a perf event for each place.
func (t *Tracer) attachKeepingByPerf(a *attachment, pid int, path string, keeping []probe.Probe, places []uint64) error {
	if err := t.kernel.more([]string{bpf.MemtraceProgPerfOwnReturn}); err != nil {
		return err
	}
	returns := make([]probe.Probe, len(places))
	for i, at := range places {
		returns[i] = probe.Probe{Name: "a return", Shape: probe.Malloc, Offset: at}
	}
	if err := t.perf(a, &a.allocs, bpf.MemtraceProgPerfOwnReturn, false, path, pid, returns); err != nil {
		return err
	}
	return t.perf(a, &a.allocs, bpf.MemtraceProgPerfAlloc, false, path, pid, keeping)
}
