package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/testdata/bench/empty"
	"github.com/memtrace/memtrace/tracer/launch"
	"github.com/memtrace/memtrace/tracer/probe"
)

// floorArgument has this program run another with empty probes.
const floorArgument = "floor"

// floor puts empty probes on all functions that memtrace would probe, in a
// program from its first instruction and in its children.
type floor struct {
	mu     sync.Mutex
	finder *probe.Finder
	probes empty.Probes
	has    map[place]bool
}

// place is a file in a process.
type place struct {
	pid          int
	major, minor uint32
	inode        uint64
}

// runFloor returns the program's exit code.
func runFloor(argv []string) int {
	f := &floor{finder: probe.NewFinder("/proc", probe.Choice{}), has: make(map[place]bool)}
	state, err := f.run(argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs: empty probes:", err)
		return 1
	}
	return state.ExitCode()
}

func (f *floor) run(argv []string) (*os.ProcessState, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	proc, err := launch.Start(launch.Program{
		Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Watch: &launch.Hooks{NewChild: f.newChild, Started: f.started},
	}, f.attach)
	if err != nil {
		return nil, err
	}
	go func() {
		for sig := range signals {
			_ = proc.Signal(sig.(syscall.Signal)) // it may have ended
		}
	}()
	state, err := proc.Wait()
	return state, errors.Join(err, f.probes.Close())
}

// attach probes what a process has mapped so far, and says whether its C
// library is there, which is mapped last.
func (f *floor) attach(pid int) (done bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects, err := f.finder.Discover(pid)
	if errors.Is(err, probe.ErrNoAllocator) || errors.Is(err, probe.ErrStripped) ||
		errors.Is(err, probe.ErrAllocatesNothing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer probe.CloseAll(objects)
	for i := range objects {
		o := &objects[i]
		done = done || o.Static || o.Family == probe.Glibc || o.Family == probe.Musl
		at := place{pid, o.Major, o.Minor, o.Inode}
		if f.has[at] {
			continue
		}
		f.has[at] = true
		if err := f.put(o, pid); err != nil {
			return false, err
		}
	}
	return done, nil
}

func (f *floor) put(o *probe.Object, pid int) error {
	var pairs, entries []probe.Probe
	for _, p := range o.Probes {
		if p.Shape.HasReturn() {
			pairs = append(pairs, p)
		} else {
			entries = append(entries, p)
		}
	}
	return errors.Join(f.probes.Entries(o.File, pid, entries), f.probes.Pairs(o.File, pid, pairs))
}

// newChild probes a child that has its parent's memory or a copy of it.
func (f *floor) newChild(pid int) { f.started(pid) }

// started probes what a process maps after an exec.
func (f *floor) started(pid int) bool {
	done, err := f.attach(pid)
	if err != nil {
		fmt.Fprintf(os.Stderr, "programs: empty probes on process %d: %v\n", pid, err)
	}
	return done || err != nil
}
