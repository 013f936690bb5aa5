//go:build linux && !viewer

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// Options of Take. The zero value takes all processes, at once, for as long as
// it takes.
type Options struct {
	Proc, Sys string // where proc and sysfs are mounted; /proc and /sys if empty
	PIDs      []int  // nil: all processes
	// StallBudget is for how long of each second a process's mmap lock may be
	// held by reading its mappings; 0: without limit. A kernel's single step,
	// which is a mapping at the least, cannot be divided.
	StallBudget time.Duration
	// TimeLimit ends the reading of processes; those not reached are OutOfTime. 0: none.
	TimeLimit time.Duration
	// Pages asks for frame numbers, map counts and flags, page by page.
	Pages    bool
	Memtrace string // version, for the record
	// Waiting is told, once and before a wait for the stall budget that a person
	// would notice, for how many processes at least and how long. May be nil.
	Waiting func(processes int, longest time.Duration)
}

// Take takes a snapshot of the running machine. Where a process cannot be
// read, its Access says why; an error means that there is no snapshot at all,
// such as when ctx ends first.
func Take(ctx context.Context, o Options) (*Snapshot, error) {
	t, err := newTaking(o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if o.TimeLimit > 0 {
		var cancel context.CancelFunc
		t.limited, cancel = context.WithTimeoutCause(ctx, o.TimeLimit, errTimeLimit)
		defer cancel()
	} else {
		t.limited = ctx
	}
	if err := t.begin(); err != nil {
		return nil, err
	}
	t.lookAll()
	t.readAll()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	if err := t.end(); err != nil {
		return nil, err
	}
	return t.s, nil
}

// errTimeLimit ends readings when Options.TimeLimit is reached.
var errTimeLimit = errors.New("the time limit was reached")

// taking is a snapshot that is being taken.
type taking struct {
	Options
	s       *Snapshot
	dir     *procfs.Dir
	machine *machineReader
	names   *components
	users   users
	limited context.Context // ends with the caller's, or at TimeLimit
	cpu     chan struct{}   // held while reading, not while waiting
	noticed sync.Once

	pids []int // as they were listed first

	mu      sync.Mutex // for what follows
	done    []*Process
	pages   map[*Process]*ProcessPages
	targets []*target
	went    []Passing
	kernel  int
	zombies int
}

func newTaking(o Options) (*taking, error) {
	o.Proc, o.Sys = cmp.Or(o.Proc, procfs.DefaultRoot), cmp.Or(o.Sys, "/sys")
	fs, err := procfs.New(o.Proc)
	if err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	dir, err := fs.Open()
	if err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	machine, err := openMachine(o.Proc, o.Sys)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take snapshot: %w", err), dir.Close())
	}
	return &taking{
		Options: o, s: &Snapshot{}, dir: dir, machine: machine, names: newComponents(),
		cpu: make(chan struct{}, runtime.GOMAXPROCS(0)), pages: make(map[*Process]*ProcessPages),
	}, nil
}

func (t *taking) close() {
	for _, l := range t.targets {
		_ = l.proc.Close()
	}
	_ = t.machine.close()
	_ = t.dir.Close()
}

func (t *taking) begin() (err error) {
	t.s.Begin = time.Now()
	if err := t.machine.describe(&t.s.Machine, t.Proc); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	t.s.Machine.Memtrace = t.Memtrace
	if t.PIDs != nil {
		t.pids = slices.Compact(slices.Sorted(slices.Values(t.PIDs)))
		return nil
	}
	if t.pids, err = t.dir.PIDs(nil); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	return nil
}

// lookAll opens all processes on the list, and finds out who they are and how
// long their walks are going to take.
func (t *taking) lookAll() {
	next, wg := make(chan int), sync.WaitGroup{}
	for range min(cap(t.cpu), len(t.pids)) {
		wg.Go(func() {
			for pid := range next {
				t.first(pid)
			}
		})
	}
	for _, pid := range t.pids {
		next <- pid
	}
	close(next)
	wg.Wait()
}

// maxAtOnce bounds how many processes are in reading, most of them waiting
// for their stall budget.
const maxAtOnce = 256

// readAll reads the mappings of all targets, those first that are done soonest.
func (t *taking) readAll() {
	slices.SortFunc(t.targets, func(a, b *target) int { return cmp.Compare(a.p.Predicted, b.p.Predicted) })
	t.announce()
	slots, wg := make(chan struct{}, maxAtOnce), sync.WaitGroup{}
	for _, l := range t.targets {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t.cpu <- struct{}{}
			defer func() { <-t.cpu }()
			t.read(l)
		})
	}
	wg.Wait()
	t.targets = nil
}

// announce tells whom it may concern how long to wait.
func (t *taking) announce() {
	n, longest := 0, time.Duration(0)
	for _, l := range t.targets {
		if t.StallBudget > 0 && l.p.Predicted > t.StallBudget {
			n, longest = n+1, max(longest, spread(l.p.Predicted, t.StallBudget))
		}
	}
	if n > 0 {
		t.notice(n, longest)
	}
}

// notice tells of a wait, once.
func (t *taking) notice(processes int, longest time.Duration) {
	if t.Waiting != nil {
		t.noticed.Do(func() { t.Waiting(processes, longest) })
	}
}

// end reads once more what may have changed, and puts all in order.
func (t *taking) end() error {
	s := t.s
	slices.SortFunc(t.done, func(a, b *Process) int { return cmp.Compare(a.PID, b.PID) })
	s.Processes = make([]Process, 0, len(t.done))
	if t.Pages {
		s.Pages = &Pages{}
	}
	runs := 0
	for i, p := range t.done {
		t.lookAgain(p)
		s.Processes = append(s.Processes, *p)
		if pages := t.pages[p]; pages != nil {
			if runs += len(pages.Runs); runs > maxRuns {
				*pages = ProcessPages{Access: Failed, Why: errTooMany.Error()}
			}
			pages.Process = i
			s.Pages.Processes = append(s.Pages.Processes, *pages)
		}
	}
	if t.Pages {
		t.readFrames()
	}
	t.findChanges()
	if err := t.machine.after(&s.Machine); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	s.End = time.Now()
	s.Components = t.names.list
	s.KernelThreads, s.Zombies = t.kernel, t.zombies
	if t.names.full {
		s.Warnings = append(s.Warnings, fmt.Sprintf("there are more than %d components, or their names take more than %d MiB, or those of one process more than %d; the rest is in %s",
			maxTableComponents, maxTableNames>>20, maxNamesOfOne>>20, otherComponents.Name))
	}
	return nil
}
