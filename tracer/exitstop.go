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
	"github.com/memtrace/memtrace/tracer/probe"
)

// ExitSignal is what a thread gets as it calls exit; see StopAtExit. Only threads
// get it that are under ptrace and don't block it: whoever traces them drops it
// before the program could see it.
const ExitSignal = unix.SIGURG

// exitCalls are the functions at whose entry a program is stopped: those that
// run what was registered by atexit or at_quick_exit. _exit runs nothing.
var exitCalls = []string{"exit", "quick_exit"}

// StopAtExit has the threads of a process get ExitSignal as they call exit or
// quick_exit, before any exit handler or destructor has run. The process must
// be attached to, and under ptrace by the caller, who sees the signal first
// and drops it. It is an error if none of the objects has such a function.
func (t *Tracer) StopAtExit(pid int, objects []probe.Object) error {
	program, multi := bpf.MemtraceProgPerfExit, t.config.Mechanism == Session || t.config.Mechanism == Multi
	if multi {
		program = bpf.MemtraceProgMultiExit
	}
	if err := t.kernel.more([]string{program}); err != nil {
		return fmt.Errorf("stop process %d at exit: %w", pid, err)
	}
	errs := []error{fmt.Errorf("no file of process %d has a function exit that can be found", pid)}
	for i := range objects {
		l, err := attachToExit(t.kernel.program(program), multi, &objects[i], pid)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.mu.Lock()
		if a := t.attached[pid]; a != nil {
			a.frees = append(a.frees, l...)
		}
		t.mu.Unlock()
		return nil
	}
	return errors.Join(errs...)
}

// StoppedAtExit reports whether a thread got ExitSignal because it called
// exit, or would have if it didn't block it, and forgets that it did.
func (t *Tracer) StoppedAtExit(tid int) bool {
	return t.kernel.coll.Maps[bpf.MemtraceMapExitCalls].Delete(uint32(tid)) == nil
}

// attachToExit puts the program on the functions of exit that a file has.
func attachToExit(prog *ebpf.Program, multi bool, o *probe.Object, pid int) ([]link.Link, error) {
	offsets, err := functionOffsets(o.File, exitCalls)
	if err != nil {
		return nil, fmt.Errorf("look for exit in %s: %w", o.Path, err)
	}
	if len(offsets) == 0 {
		return nil, fmt.Errorf("%s has no function exit", o.Path)
	}
	ex, err := link.OpenExecutable(objectPath(o))
	if err != nil {
		return nil, fmt.Errorf("open %s to attach: %w", o.Path, err)
	}
	if multi {
		l, err := ex.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: offsets, PID: uint32(pid)})
		if err != nil {
			return nil, fmt.Errorf("attach to exit in %s: %w", o.Path, err)
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
			return nil, fmt.Errorf("attach to exit in %s: %w", o.Path, err)
		}
		links = append(links, l)
	}
	return links, nil
}

// functionOffsets are where in a file functions begin, in all their versions
// (glibc has two of quick_exit).
func functionOffsets(file io.ReaderAt, names []string) (offsets []uint64, err error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	dynamic, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	static, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	for _, s := range slices.Concat(dynamic, static) {
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC || !slices.Contains(names, s.Name) {
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
