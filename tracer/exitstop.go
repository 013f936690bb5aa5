package tracer

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/debugfile"
	"github.com/memtrace/memtrace/tracer/probe"
)

// ExitSignal is what a thread gets as it calls exit; see StopAtExit. Only threads
// get it that are under ptrace and don't block it: whoever traces them drops it
// before the program could see it.
const ExitSignal = unix.SIGURG

// exitCalls are the functions at whose entry a program is stopped: those that
// run what was registered by atexit or at_quick_exit. _exit runs nothing.
var exitCalls = []string{"exit", "quick_exit"}

// execCalls are the functions at whose entry a program is stopped that may become
// another: all others of exec's family end in one of these.
var execCalls = []string{"execve", "fexecve", "execveat"}

// ptraceCalls are the functions at whose entry a program is stopped that may be about to trace.
var ptraceCalls = []string{"ptrace"}

// A callStop stops a thread as it calls one of some functions.
type callStop struct {
	what        string // for people
	calls       []string
	perf, multi string // BPF programs
	threads     string // the map of those that were stopped
}

var (
	exitStop = callStop{"exit", exitCalls, bpf.MemtraceProgPerfExit, bpf.MemtraceProgMultiExit, bpf.MemtraceMapExitCalls}
	execStop = callStop{"exec", execCalls, bpf.MemtraceProgPerfExec, bpf.MemtraceProgMultiExec, bpf.MemtraceMapExecCalls}

	ptraceStop = callStop{"ptrace", ptraceCalls, bpf.MemtraceProgPerfPtrace, bpf.MemtraceProgMultiPtrace, bpf.MemtraceMapPtraceCalls}
)

// StopAtExit has the threads of a process get ExitSignal as they call exit or
// quick_exit, before any exit handler or destructor has run. The process must
// be attached to, and under ptrace by the caller, who sees the signal first
// and drops it. It is an error if none of the objects has such a function.
func (t *Tracer) StopAtExit(pid int, objects []probe.Object) error {
	return t.stopAt(exitStop, pid, objects)
}

// StopAtExec does the same for the functions that execute another program in
// the process's place. The call may still fail.
func (t *Tracer) StopAtExec(pid int, objects []probe.Object) error {
	return t.stopAt(execStop, pid, objects)
}

// StopAtPtrace does the same for ptrace, where the call would take a process under it.
func (t *Tracer) StopAtPtrace(pid int, objects []probe.Object) error {
	return t.stopAt(ptraceStop, pid, objects)
}

// A placedStop is a callStop on one file of a process.
type placedStop struct {
	stop   callStop
	object probe.Object // its file is the caller's
	links  []link.Link
}

func (t *Tracer) stopAt(s callStop, pid int, objects []probe.Object) error {
	errs := []error{fmt.Errorf("no file of process %d has a function %s that can be found", pid, s.what)}
	for i := range objects {
		placed, err := t.placeStop(s, pid, &objects[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return t.keepStop(pid, placed)
	}
	return errors.Join(errs...)
}

// keepStop has a stop end with what else is attached to the process.
func (t *Tracer) keepStop(pid int, placed placedStop) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attached[pid]
	if a == nil && t.config.Everywhere { // whose probes are nobody's in particular
		a = &attachment{}
		t.attached[pid] = a
	}
	if a == nil {
		err := fmt.Errorf("stop process %d at %s: it is not attached to", pid, placed.stop.what)
		return errors.Join(err, closeAll(placed.links))
	}
	a.stops = append(a.stops, placed)
	return nil
}

// placeStop attaches to a process through a thread that lives, as newAttachment does.
func (t *Tracer) placeStop(s callStop, pid int, o *probe.Object) (placedStop, error) {
	thread := probe.LivingThread("/proc", pid)
	program, multi := s.perf, !t.config.Mechanism.perThread() && thread == pid
	if multi {
		program = s.multi
	}
	if err := t.kernel.more([]string{program}); err != nil {
		return placedStop{}, fmt.Errorf("stop process %d at %s: %w", pid, s.what, err)
	}
	links, err := s.attach(t.kernel.program(program), multi, o, thread, &t.functions)
	return placedStop{s, *o, links}, err
}

// stopsOf are the stops of a process.
func (t *Tracer) stopsOf(pid int) []placedStop {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.attached[pid]; a != nil {
		return a.stops
	}
	return nil
}

// stopAgain has a process stopped again where it was before its probes were taken off.
func (t *Tracer) stopAgain(pid int, stops []placedStop) error {
	var err error
	for _, s := range stops {
		err = errors.Join(err, t.stopAt(s.stop, pid, []probe.Object{s.object}))
	}
	return err
}

// StoppedAtExit reports whether a thread got ExitSignal because it called
// exit, or would have if it didn't block it, and forgets that it did.
func (t *Tracer) StoppedAtExit(tid int) bool { return t.stopped(exitStop, tid) }

// StoppedAtExec reports whether a thread got ExitSignal because it called exec,
// and forgets that it did.
func (t *Tracer) StoppedAtExec(tid int) bool { return t.stopped(execStop, tid) }

// StoppedAtPtrace tells which process or thread a thread that got ExitSignal is about to take under ptrace,
// or be taken by its parent if it is its own, and forgets that it did.
func (t *Tracer) StoppedAtPtrace(tid int) (pid int, ok bool) {
	var id uint32
	calls := t.kernel.coll.Maps[ptraceStop.threads]
	if calls.Lookup(uint32(tid), &id) != nil || calls.Delete(uint32(tid)) != nil {
		return 0, false
	}
	return int(id), true
}

func (t *Tracer) stopped(s callStop, tid int) bool {
	return t.kernel.coll.Maps[s.threads].Delete(uint32(tid)) == nil
}

// attach puts the program on the functions that a file has.
func (s callStop) attach(prog *ebpf.Program, multi bool, o *probe.Object, pid int, places *functionPlaces) ([]link.Link, error) {
	offsets, err := places.of(o.File, s.calls)
	if err != nil {
		return nil, fmt.Errorf("look for %s in %s: %w", s.what, o.Path, err)
	}
	if len(offsets) == 0 {
		return nil, fmt.Errorf("%s has no function %s", o.Path, s.what)
	}
	anchored(objectPath(o), offsets[0])
	ex, err := link.OpenExecutable(objectPath(o))
	if err != nil {
		return nil, fmt.Errorf("open %s to attach: %w", o.Path, err)
	}
	if multi {
		l, err := ex.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: offsets, PID: uint32(pid)})
		if err != nil {
			return nil, fmt.Errorf("attach to %s in %s: %w", s.what, o.Path, err)
		}
		return []link.Link{l}, nil
	}
	var links []link.Link
	for _, offset := range offsets {
		l, err := ex.Uprobe("", prog, &link.UprobeOptions{Address: offset, PID: pid})
		if err != nil {
			for _, l := range links {
				_ = l.Close() // nothing depends on it yet
			}
			return nil, fmt.Errorf("attach to %s in %s: %w", s.what, o.Path, err)
		}
		links = append(links, l)
	}
	return links, nil
}

// functionOffsets are where in a file functions begin, in all their versions
// (glibc has two of quick_exit).
func functionOffsets(file io.ReaderAt, names []string) (offsets []uint64, err error) {
	f, err := debugfile.ReadELF(file)
	if err != nil {
		return nil, err
	}
	for _, s := range debugfile.FindSymbols(f, names...) {
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value-p.Vaddr < p.Filesz {
				offsets = append(offsets, s.Value-p.Vaddr+p.Off)
			}
		}
	}
	slices.Sort(offsets)
	return slices.Compact(offsets), nil
}
