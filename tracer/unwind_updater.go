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

// tableUpdater updates the unwinding tables, in goroutines of its own. It reads
// the mappings of a process again when the process maps code, or when the unwinder
// has met code that it does not know.
type tableUpdater struct {
	spaces *spaces
	notify func(pids map[int]uint64) // called with known processes that have mapped code
	watch  *mapWatch                 // nil where the kernel or the privileges don't allow it
	stale  chan int                  // processes to look at; what doesn't fit comes again
	quit   chan struct{}
	done   sync.WaitGroup
}

const (
	staleQueue = 256
	// The delay doubles for a process whose mappings were known already, as the address was
	// nonsense.
	minStaleDelay = time.Millisecond
	maxStaleDelay = 5 * time.Second
)

// startTableUpdater begins to update tables. watch says that code is to be noticed as it is mapped.
func startTableUpdater(s *spaces, tell func(pids map[int]uint64), watch bool) *tableUpdater {
	k := &tableUpdater{spaces: s, notify: tell, stale: make(chan int, staleQueue), quit: make(chan struct{})}
	if watch {
		k.watchMappings()
	}
	k.done.Go(k.run)
	return k
}

// watchMappings has code noticed as it is mapped, where that can be; else that is later, by what the unwinder reports.
func (u *tableUpdater) watchMappings() {
	watch, err := startMapWatch()
	if err != nil {
		return
	}
	u.watch = watch
	u.done.Add(1)
	ownthread.Go(func() {
		defer u.done.Done()
		hurry()
		watch.run(u.remapped)
	})
}

// updaterNice is the priority of the thread that loads tables (setpriority(2)):
// it has a millisecond's work to do before a library that has been mapped runs.
const updaterNice = -10

// hurry has the calling thread scheduled before others, if that is allowed.
func hurry() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), updaterNice)
}

// report says that process pid runs code that is not known. It never blocks.
func (u *tableUpdater) report(pid int) {
	select {
	case u.stale <- pid:
	default:
	}
}

func (u *tableUpdater) stop() error {
	close(u.quit)
	if u.watch != nil {
		u.watch.stop()
		defer u.watch.close()
	}
	u.done.Wait()
	u.spaces.tables.cache.writes.Wait()
	return u.spaces.tables.wait()
}

// retry is when a process may be looked at again.
type retry struct {
	next  time.Time
	delay time.Duration
}

func (u *tableUpdater) run() {
	waits := make(map[int]retry)
	for {
		select {
		case <-u.quit:
			return
		case pid := <-u.stale:
			now := time.Now()
			w := waits[pid]
			if now.Before(w.next) {
				continue
			}
			changed, err := u.spaces.reload(pid)
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
func (u *tableUpdater) remapped(pids map[int]uint64, all bool) {
	if all {
		for _, pid := range u.spaces.pids() {
			pids[pid] = uint64(monotonic())
		}
	}
	for pid := range pids {
		if !u.spaces.knows(pid) {
			delete(pids, pid)
			continue
		}
		// What ended is noticed elsewhere; what failed is tried again when it is met.
		_, _ = u.spaces.reload(pid)
	}
	u.notify(pids)
}

// ReloadMaps makes the unwinder know the code that process pid has mapped by
// now. The tracer does so itself when the unwinder meets unknown code; after
// an exec the caller knows sooner. It does nothing where stacks are not taken
// by .eh_frame.
func (t *Tracer) ReloadMaps(pid int) error {
	if t.updater == nil {
		return nil
	}
	_, err := t.updater.spaces.load(pid)
	return err
}

// reloadMaps is ReloadMaps, and returns the code that was mapped then for pythons.lookIn, unless some that is mapped
// before that is called would be told of by nobody.
func (t *Tracer) reloadMaps(pid int) (listing, error) {
	if t.updater == nil {
		return listing{}, nil
	}
	listed, err := t.updater.spaces.load(pid)
	if err != nil || t.updater.watch == nil {
		return listing{}, err
	}
	return listed, nil
}

// TableMemory returns how many bytes the unwinding tables of all processes
// took in the kernel at the most, and how many bytes of .eh_frame and
// .debug_frame those were made from. The fixed maps (the PC cache of 1 MiB, the
// list of rules of 384 KiB, 2 MiB of mappings) come on top.
func (t *Tracer) TableMemory() (tables, source uint64) {
	if t.updater == nil {
		return 0, 0
	}
	s := t.updater.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables.peak.tables, s.tables.peak.source
}

// UnwindProblems returns why parts of the processes' code have no tables, one
// line a file.
func (t *Tracer) UnwindProblems() []string {
	if t.updater == nil {
		return nil
	}
	s := t.updater.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems.lines)
}
