package tracer

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// markPlaces are the places in the kernel half's array of where the arguments
// of USDT probes are. Probes that have them in the same places share one.
type markPlaces struct {
	mu     sync.Mutex
	places map[[3]probe.StaticArg]uint32
}

// maxMarks is the size of that array; bpf/headers/record.h.
const maxMarks = 4096

// place returns where the arguments are in the array, and puts them there.
func (m *markPlaces) place(k *kernelHalf, args [3]probe.StaticArg) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.places[args]; ok {
		return at, nil
	}
	at := uint32(len(m.places))
	if at >= maxMarks {
		return 0, errors.New("too many different USDT probes: trace fewer programs at a time")
	}
	var value bpf.MemtraceMark
	for i, a := range args {
		to := &value.Args[i]
		to.Value, to.Base, to.Index = a.Value, a.Base, a.Index
		to.Kind, to.Size, to.IndexBy = uint8(a.Kind), a.Size, a.Scaled
		if a.Signed {
			to.IsSigned = 1
		}
	}
	if err := k.coll.Maps[bpf.MemtraceMapMarks].Put(at, value); err != nil {
		return 0, fmt.Errorf("tell where a USDT probe's arguments are: %w", err)
	}
	if m.places == nil {
		m.places = make(map[[3]probe.StaticArg]uint32)
	}
	m.places[args] = at
	return at, nil
}

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
