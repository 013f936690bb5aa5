package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"

	"github.com/memtrace/memtrace/bpf"
)

// programStats are the programs of a memtrace that is about to load them, whose runs the kernel counts and times while
// its statistics are on. They are held, so that their figures outlast memtrace.
type programStats struct {
	after ebpf.ProgramID // those before are others'
	alloc *ebpf.Program
	free  *ebpf.Program

	quit chan struct{}
	done chan error
}

// watchPrograms begins to look for them.
func watchPrograms() (*programStats, error) {
	w := &programStats{quit: make(chan struct{}), done: make(chan error, 1)}
	for {
		next, err := ebpf.ProgramGetNextID(w.after)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the BPF programs: %w", err)
		}
		w.after = next
	}
	go func() { w.done <- w.find() }()
	return w, nil
}

// find looks until it has both, or is told to end.
func (w *programStats) find() error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := w.look()
		if err != nil || (w.alloc != nil && w.free != nil) {
			return err
		}
		select {
		case <-w.quit:
			return errors.New("memtrace has not loaded the programs of a session (Linux 6.13): the ladder is of those")
		case <-tick.C:
		}
	}
}

// look goes through the programs that have come.
func (w *programStats) look() error {
	for {
		next, err := ebpf.ProgramGetNextID(w.after)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the BPF programs: %w", err)
		}
		w.after = next
		if err := w.take(next); err != nil && !errors.Is(err, os.ErrNotExist) { // it may be gone again
			return err
		}
	}
}

// take keeps a program if it is one of the two.
func (w *programStats) take(id ebpf.ProgramID) error {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	info, err := p.Info()
	if err != nil {
		return errors.Join(err, p.Close())
	}
	switch {
	case info.Name == bpf.MemtraceProgSessionAlloc && w.alloc == nil:
		w.alloc = p
	case info.Name == bpf.MemtraceProgMultiFree && w.free == nil:
		w.free = p
	default:
		return p.Close()
	}
	return nil
}

// ran is how often a program ran, and for how long.
type ran struct {
	Runs uint64
	NS   float64
}

// end reads what both did, and lets go of them.
func (w *programStats) end() (alloc, free ran, err error) {
	close(w.quit)
	err = <-w.done
	for _, p := range []struct {
		program *ebpf.Program
		to      *ran
	}{{w.alloc, &alloc}, {w.free, &free}} {
		if p.program == nil {
			continue
		}
		s, statsErr := p.program.Stats()
		if statsErr == nil {
			*p.to = ran{s.RunCount, float64(s.Runtime)}
		}
		err = errors.Join(err, statsErr, p.program.Close())
	}
	return alloc, free, err
}
