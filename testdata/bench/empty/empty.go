// Package empty puts empty BPF programs where memtrace would probe: what they
// cost is what no tracer by uprobes can be below.
package empty

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/probe"
)

// Attach types and flags of include/uapi/linux/bpf.h.
const (
	uprobeMulti   = ebpf.AttachTraceUprobeMulti // 6.6
	uprobeSession = ebpf.AttachType(57)         // 6.13
	multiReturn   = 1
)

// What a program can do: nothing, or leave a session's return out.
var (
	Both = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	Skip = asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}
)

// Probes are empty programs on functions.
type Probes struct {
	programs []*ebpf.Program
	links    []int
}

// Entries probes functions at their entries.
func (e *Probes) Entries(file *os.File, pid int, probes []probe.Probe) error {
	return e.add(file, pid, probes, uprobeMulti, 0, Both)
}

// Pairs probes functions at their entries and returns: by a session where the
// kernel has them, else by a pair of links.
func (e *Probes) Pairs(file *os.File, pid int, probes []probe.Probe) error {
	err := e.Session(file, pid, probes, Both)
	if errors.Is(err, unix.EINVAL) {
		err = errors.Join(e.add(file, pid, probes, uprobeMulti, multiReturn, Both), e.add(file, pid, probes, uprobeMulti, 0, Both))
	}
	return err
}

// Session is Pairs by a session alone (6.13), whose program does something.
func (e *Probes) Session(file *os.File, pid int, probes []probe.Probe, does asm.Instructions) error {
	return e.add(file, pid, probes, uprobeSession, 0, does)
}

// add puts a program on functions of one file.
func (e *Probes) add(file *os.File, pid int, probes []probe.Probe, typ ebpf.AttachType, flags uint32, does asm.Instructions) error {
	if len(probes) == 0 {
		return nil
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: typ, License: "GPL",
		Instructions: does,
	})
	if err != nil {
		return fmt.Errorf("load a program for %s: %w", probes[0].Name, err)
	}
	link, err := attach(prog, typ, file, probes, flags, pid)
	if err != nil {
		_ = prog.Close()
		return err
	}
	e.programs, e.links = append(e.programs, prog), append(e.links, link)
	return nil
}

// attach makes a link by bpf(2)'s BPF_LINK_CREATE.
func attach(prog *ebpf.Program, typ ebpf.AttachType, file *os.File, probes []probe.Probe, flags uint32, pid int) (int, error) {
	path, err := unix.BytePtrFromString(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return -1, err
	}
	offsets := make([]uint64, len(probes))
	for i := range probes {
		offsets[i] = probes[i].Offset
	}
	request := struct {
		prog, target, typ, flags       uint32
		path                           *byte
		offsets, refCounters, cookies  *uint64
		count, multiFlags, pid, unused uint32
	}{prog: uint32(prog.FD()), typ: uint32(typ), path: path, offsets: &offsets[0], count: uint32(len(offsets)), multiFlags: flags, pid: uint32(pid)}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return -1, fmt.Errorf("attach a program to %d places of %s: %w", len(offsets), file.Name(), errno)
	}
	return int(fd), nil
}

// Close takes the probes away.
func (e *Probes) Close() error {
	var errs []error
	for _, link := range e.links {
		errs = append(errs, unix.Close(link))
	}
	for _, p := range e.programs {
		errs = append(errs, p.Close())
	}
	e.links, e.programs = nil, nil
	return errors.Join(errs...)
}
