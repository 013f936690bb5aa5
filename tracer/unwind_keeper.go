package tracer

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
)

// keeper keeps the unwinding tables up with the processes, in goroutines of
// its own: whenever a process maps code, or the unwinder has met code that it
// does not know, it looks at the mappings of the process again.
type keeper struct {
	spaces *spaces
	tell   func(pids map[int]uint64) // of known processes that have mapped code
	watch  *mapWatch                 // nil where the kernel or the privileges don't allow it
	stale  chan int                  // processes to look at; what doesn't fit comes again
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

func startKeeper(s *spaces, tell func(pids map[int]uint64)) *keeper {
	k := &keeper{spaces: s, tell: tell, stale: make(chan int, staleQueue), quit: make(chan struct{})}
	var err error
	if k.watch, err = startMapWatch(); err == nil { // else later, by what the unwinder reports
		k.done.Add(1)
		ownthread.Go(func() {
			defer k.done.Done()
			hurry()
			k.watch.run(k.remapped)
		})
	}
	k.done.Go(k.run)
	return k
}

// keeperNice is the priority of the thread that loads tables (setpriority(2)):
// it has a millisecond's work to do before a library that has been mapped runs.
const keeperNice = -10

// hurry has the calling thread scheduled before others, if that is allowed.
func hurry() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), keeperNice)
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
	if k.watch != nil {
		k.watch.stop()
		defer k.watch.close()
	}
	k.done.Wait()
	k.spaces.tables.cache.writes.Wait()
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

// remapped looks at processes that have mapped code; all is set where it is
// not known which have.
func (k *keeper) remapped(pids map[int]uint64, all bool) {
	if all {
		for _, pid := range k.spaces.pids() {
			pids[pid] = uint64(monotonic())
		}
	}
	for pid := range pids {
		if !k.spaces.knows(pid) {
			delete(pids, pid)
			continue
		}
		// What ended is noticed elsewhere; what failed is tried again when it is met.
		_, _ = k.spaces.reload(pid)
	}
	k.tell(pids)
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
// took in the kernel at the most, and how many bytes of .eh_frame and
// .debug_frame those were made from. The fixed maps (the PC cache of 1 MiB, the
// list of rules of 384 KiB, 2 MiB of mappings) come on top.
func (t *Tracer) TableMemory() (tables, source uint64) {
	if t.keeper == nil {
		return 0, 0
	}
	s := t.keeper.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables.peak.tables, s.tables.peak.source
}

// UnwindProblems returns why parts of the processes' code have no tables, one
// line a file.
func (t *Tracer) UnwindProblems() []string {
	if t.keeper == nil {
		return nil
	}
	s := t.keeper.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems.lines)
}
