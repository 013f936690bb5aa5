package tracer

import (
	"errors"
	"os"
	"sync"
	"time"
)

// keeper keeps the unwinding tables up with the processes, in a goroutine of
// its own: whenever the unwinder has met code that it does not know, it looks
// at the mappings of the process again.
type keeper struct {
	spaces *spaces
	stale  chan int // processes to look at; what doesn't fit comes again
	quit   chan struct{}
	done   sync.WaitGroup
}

const (
	staleQueue = 256
	// A process whose mappings turn out to be known already (the address was
	// nonsense) is looked at ever more rarely.
	minStaleDelay = time.Millisecond
	maxStaleDelay = 5 * time.Second
)

func startKeeper(s *spaces) *keeper {
	k := &keeper{spaces: s, stale: make(chan int, staleQueue), quit: make(chan struct{})}
	k.done.Go(k.run)
	return k
}

// report says that process pid runs code that is not known. It never blocks.
func (k *keeper) report(pid int) {
	select {
	case k.stale <- pid:
	default:
	}
}

func (k *keeper) stop() error {
	close(k.quit)
	k.done.Wait()
	return k.spaces.tables.wait()
}

// patience is when a process may be looked at again.
type patience struct {
	next  time.Time
	delay time.Duration
}

func (k *keeper) run() {
	waits := make(map[int]patience)
	for {
		select {
		case <-k.quit:
			return
		case pid := <-k.stale:
			now := time.Now()
			w := waits[pid]
			if now.Before(w.next) {
				continue
			}
			changed, err := k.spaces.reload(pid)
			if errors.Is(err, os.ErrProcessDone) {
				delete(waits, pid)
				continue
			}
			if changed {
				w.delay = 0
			} else {
				w.delay = min(max(2*w.delay, minStaleDelay), maxStaleDelay)
			}
			w.next = now.Add(w.delay)
			waits[pid] = w
		}
	}
}

// ReloadMaps makes the unwinder know the code that process pid has mapped by
// now. The tracer does so itself when the unwinder meets unknown code; after
// an exec the caller knows sooner. It does nothing where stacks are not taken
// by .eh_frame.
func (t *Tracer) ReloadMaps(pid int) error {
	if t.keeper == nil {
		return nil
	}
	return t.keeper.spaces.load(pid)
}

// TableMemory returns how many bytes the unwinding tables of all processes
// take in the kernel, and how many bytes of .eh_frame and .debug_frame they
// were made from. The fixed maps (the PC cache of 1 MiB, the list of rules of
// 384 KiB, 2 MiB of mappings) come on top.
func (t *Tracer) TableMemory() (tables, source int) {
	if t.keeper == nil {
		return 0, 0
	}
	s := t.keeper.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables.memory()
}

// UnwindProblems returns why parts of process pid's code have no tables.
func (t *Tracer) UnwindProblems(pid int) []error {
	if t.keeper == nil {
		return nil
	}
	s := t.keeper.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[pid]; known != nil {
		return known.problems
	}
	return nil
}
