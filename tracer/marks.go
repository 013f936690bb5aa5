package tracer

import (
	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// attachMarks attaches to the USDT probes of an object that have a shape. The
// kernel switches on those with a semaphore, in the memory of the processes, and
// off again once nobody is attached, however the tracer ends.
func (t *Tracer) attachMarks(a *attachment, to *[]link.Link, pid int, o *probe.Object, shape probe.Shape) error {
	var probes []probe.Probe
	for _, p := range o.Probes {
		if p.Shape == shape {
			probes = append(probes, p)
		}
	}
	if len(probes) == 0 {
		return nil
	}
	switch a.mechanism {
	case Session, Multi:
		if err := t.kernel.more([]string{bpf.MemtraceProgMultiMark}); err != nil {
			return err
		}
		l, err := t.multi(bpf.MemtraceProgMultiMark, attachUprobeMulti, false, objectPath(o), pid, probes)
		if err == nil {
			*to = append(*to, l)
		}
		return err
	case PerfCookie:
		if err := t.kernel.more([]string{bpf.MemtraceProgPerfMark}); err != nil {
			return err
		}
	}
	return t.perf(a, to, bpf.MemtraceProgPerfMark, false, objectPath(o), pid, probes)
}
