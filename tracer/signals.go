package tracer

import (
	"fmt"

	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
)

// SentSignal is the last signal of one number that a process was sent.
type SentSignal struct {
	At     uint64 // ns, CLOCK_MONOTONIC
	Sender uint32 // thread group ID of whoever ran then; that of a terminal's signal is anybody's
}

// NoteSignals notes which signals two processes are sent from now on.
func (t *Tracer) NoteSignals(one, other int) error {
	const name = bpf.MemtraceProgSignalGenerate
	if err := t.kernel.more([]string{name}); err != nil {
		return err
	}
	noted := t.kernel.coll.Maps[bpf.MemtraceMapNoted]
	for _, pid := range []int{one, other} {
		if err := noted.Put(uint32(pid), uint32(pid)); err != nil {
			return fmt.Errorf("note the signals of process %d: %w", pid, err)
		}
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: t.kernel.program(name)})
	if err != nil {
		return fmt.Errorf("attach %s: %w", name, explain(err))
	}
	t.links = append(t.links, l)
	return nil
}

// SentSignal returns the last such signal that a process was sent since NoteSignals.
// ok is false where none was noted.
func (t *Tracer) SentSignal(pid, signal int) (s SentSignal, ok bool) {
	var sent bpf.MemtraceSignalSent
	key := bpf.MemtraceSignalKey{Tgid: uint32(pid), Signal: uint32(signal)}
	if t.kernel.coll.Maps[bpf.MemtraceMapSignals].Lookup(key, &sent) != nil {
		return SentSignal{}, false
	}
	return SentSignal{At: sent.At, Sender: uint32(sent.Sender)}, true
}
