package tracer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/memtrace/memtrace/tracer/probe"
)

// Pause takes the allocators' probes off all processes, which then allocate as if they
// were not traced, and keeps watching their faults and lives. They are still stopped where
// StopAtExit and the like have them stopped. What is attached to meanwhile gets its probes
// at Resume. It is not for a tracer of Everywhere.
//
// Frees may be missed before the last allocation is seen: no block that was seen before Pause has
// returned is known to live.
func (t *Tracer) Pause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused {
		return nil
	}
	t.paused = true
	return t.eachAttachment(func(_ int, a *attachment) error { return a.unprobeAtOnce() })
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
		again.stops = a.stops
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

// attachUnlessPaused probes a process, or prepares for Resume to do it. paused says
// which, as of when it looked.
func (t *Tracer) attachUnlessPaused(pid int, objects []probe.Object) (a *attachment, paused bool, err error) {
	t.mu.Lock()
	paused = t.paused
	t.mu.Unlock()
	if !paused {
		a, err = t.attach(pid, objects)
		return a, false, err
	}
	if a, err = t.newAttachment(pid); err == nil {
		a.objects = objects
	}
	return a, true, err
}

// attachNow is attachUnlessPaused, and holds the lock where there is no error. What
// Resume did not know of is probed here.
func (t *Tracer) attachNow(pid int, objects []probe.Object) (*attachment, error) {
	for {
		a, paused, err := t.attachUnlessPaused(pid, objects)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		if t.paused || !paused {
			return a, nil
		}
		t.mu.Unlock()
	}
}
