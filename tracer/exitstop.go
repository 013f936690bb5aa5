package tracer

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/probe"
)

// ExitSignal is what a thread gets as it calls exit; see StopAtExit. A thread
// that nobody watches by ptrace ignores it, unless the program has a handler
// for it, which has to bear with needless ones.
const ExitSignal = unix.SIGURG

// exitCalls are the functions at whose entry a program is stopped: those that
// run what was registered by atexit or at_quick_exit. _exit runs nothing.
var exitCalls = []string{"exit", "quick_exit"}

// exitStops is the program that signals a thread as it calls exit, and the
// threads that it signalled.
type exitStops struct {
	prog    *ebpf.Program
	threads *ebpf.Map
	err     error
	once    sync.Once
}

// StopAtExit has the threads of a process get ExitSignal as they call exit or
// quick_exit, before any exit handler or destructor has run. The process must
// be attached to, and under ptrace by the caller, who sees the signal first
// and drops it. It is an error if none of the objects has such a function.
func (t *Tracer) StopAtExit(pid int, objects []probe.Object) error {
	t.exits.once.Do(func() { t.exits.err = t.exits.load(t.config.Mechanism) })
	if t.exits.err != nil {
		return fmt.Errorf("stop process %d at exit: %w", pid, t.exits.err)
	}
	errs := []error{fmt.Errorf("no file of process %d has a function exit that can be found", pid)}
	for i := range objects {
		l, err := t.exits.attach(&objects[i], pid, t.config.Mechanism)
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
// exit, and forgets that it did.
func (t *Tracer) StoppedAtExit(tid int) bool {
	return t.exits.threads != nil && t.exits.threads.Delete(uint32(tid)) == nil
}

func (e *exitStops) load(m Mechanism) error {
	threads, err := ebpf.NewMap(&ebpf.MapSpec{Name: "exit_calls", Type: ebpf.LRUHash, KeySize: 4, ValueSize: 4, MaxEntries: 4096})
	if err != nil {
		return fmt.Errorf("make a map of threads: %w", err)
	}
	spec := exitProgram(threads.FD())
	if m == Session || m == Multi {
		spec.AttachType = attachUprobeMulti
	}
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		return errors.Join(fmt.Errorf("load the program that signals a thread: %w", err), threads.Close())
	}
	e.prog, e.threads = prog, threads
	return nil
}

// exitProgram signals the calling thread:
//
//	int exit_called(void *ctx) {
//		u64 tid = (u32)bpf_get_current_pid_tgid();
//		bpf_map_update_elem(&threads, &tid, &tid, BPF_ANY);
//		bpf_send_signal_thread(SIGURG);
//		return 0;
//	}
func exitProgram(threads int) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: "exit_called", Type: ebpf.Kprobe, License: "GPL",
		Instructions: asm.Instructions{
			asm.FnGetCurrentPidTgid.Call(),
			asm.StoreMem(asm.RFP, -8, asm.R0, asm.Word),
			asm.LoadMapPtr(asm.R1, threads),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -8),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnMapUpdateElem.Call(),
			asm.Mov.Imm(asm.R1, int32(ExitSignal)),
			asm.FnSendSignalThread.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	}
}

// attach puts the program on the functions that a file has.
func (e *exitStops) attach(o *probe.Object, pid int, m Mechanism) ([]link.Link, error) {
	offsets, err := exitOffsets(o.File)
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
	if m == Session || m == Multi {
		l, err := ex.UprobeMulti(nil, e.prog, &link.UprobeMultiOptions{Addresses: offsets, PID: uint32(pid)})
		if err != nil {
			return nil, fmt.Errorf("attach to exit in %s: %w", o.Path, err)
		}
		return []link.Link{l}, nil
	}
	var links []link.Link
	for _, offset := range offsets {
		l, err := ex.Uprobe("", e.prog, &link.UprobeOptions{Address: offset, PID: pid})
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

// exitOffsets are where in a file exitCalls begin, in all their versions
// (glibc has two of quick_exit).
func exitOffsets(file io.ReaderAt) (offsets []uint64, err error) {
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
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC || !slices.Contains(exitCalls, s.Name) {
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

func (e *exitStops) close() error {
	if e.prog == nil {
		return nil
	}
	return errors.Join(e.prog.Close(), e.threads.Close())
}
