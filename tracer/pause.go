package tracer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/memtrace/memtrace/tracer/probe"
)

// Pause takes the probes off all processes, which then run as if they were not
// traced, and keeps watching their faults and lives. What is attached to
// meanwhile gets its probes at Resume. It is not for a tracer of Everywhere.
func (t *Tracer) Pause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused {
		return nil
	}
	t.paused = true
	return t.eachAttachment(func(_ int, a *attachment) error { return a.close() })
}

// Resume probes all processes again.
func (t *Tracer) Resume() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.paused {
		return nil
	}
	t.paused = false
	return t.eachAttachment(func(pid int, a *attachment) error {
		again, err := t.attach(pid, a.objects)
		if err != nil && probe.ThreadEnded("/proc", pid, probe.LivingThread("/proc", pid)) {
			return nil // the process has ended; its exit event is on its way
		}
		if err != nil {
			return fmt.Errorf("attach to process %d again: %w", pid, err)
		}
		*a = *again
		return nil
	})
}

// eachAttachment works on some processes at a time: each waits for the kernel.
func (t *Tracer) eachAttachment(do func(pid int, a *attachment) error) error {
	pids := slices.Collect(maps.Keys(t.attached))
	errs := make([]error, len(pids))
	slots := make(chan struct{}, closesAtOnce)
	var wg sync.WaitGroup
	for i, pid := range pids {
		slots <- struct{}{}
		a := t.attached[pid]
		wg.Go(func() {
			errs[i] = do(pid, a)
			<-slots
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (t *Tracer) attachUnlessPaused(pid int, objects []probe.Object) (*attachment, error) {
	t.mu.Lock()
	paused := t.paused
	t.mu.Unlock()
	if !paused {
		return t.attach(pid, objects)
	}
	a, err := t.newAttachment(pid)
	if err == nil {
		a.objects = objects
	}
	return a, err
}
