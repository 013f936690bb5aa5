package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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

// floor are empty programs where memtrace would probe.
type floor struct {
	programs []*ebpf.Program
	links    []int
}

// attachFloor probes the entry and return of malloc and the entry of free: by
// a session where the kernel has them, else by a pair of links.
func attachFloor(pid int) (tool, error) {
	objects, err := probe.Discover("/proc", pid)
	if err != nil {
		return nil, err
	}
	defer probe.CloseAll(objects)
	f := &floor{}
	err = f.add(objects, "malloc", uprobeSession, 0, pid, empty)
	if errors.Is(err, unix.EINVAL) {
		err = errors.Join(f.add(objects, "malloc", uprobeMulti, multiReturn, pid, empty), f.add(objects, "malloc", uprobeMulti, 0, pid, empty))
	}
	if err = errors.Join(err, f.add(objects, "free", uprobeMulti, 0, pid, empty)); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

// empty is what an empty program does; skip leaves a session's return out.
var (
	empty = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	skip  = asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}
)

// attachEntries probes the entries of malloc and free alone: the least that a
// sample of a few can cost.
func attachEntries(pid int) (tool, error) {
	objects, err := probe.Discover("/proc", pid)
	if err != nil {
		return nil, err
	}
	defer probe.CloseAll(objects)
	f := &floor{}
	err = errors.Join(f.add(objects, "malloc", uprobeSession, 0, pid, skip), f.add(objects, "free", uprobeMulti, 0, pid, empty))
	if err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

// add puts a program on a function.
func (f *floor) add(objects []probe.Object, function string, typ ebpf.AttachType, flags uint32, pid int, does asm.Instructions) error {
	p, file, err := find(objects, function)
	if err != nil {
		return err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: typ, License: "GPL",
		Instructions: does,
	})
	if err != nil {
		return fmt.Errorf("load a program for %s: %w", function, err)
	}
	link, err := attachAt(prog, typ, file, p.Offset, flags, pid)
	if err != nil {
		_ = prog.Close()
		return err
	}
	f.programs, f.links = append(f.programs, prog), append(f.links, link)
	return nil
}

// find prefers an allocator that was preloaded to the C library's, which it replaces.
func find(objects []probe.Object, function string) (found *probe.Probe, file *os.File, err error) {
	for i := range objects {
		isLibc := strings.HasPrefix(filepath.Base(objects[i].Path), "libc.so")
		for j := range objects[i].Probes {
			if objects[i].Probes[j].Name == function && (found == nil || !isLibc) {
				found, file = &objects[i].Probes[j], objects[i].File
			}
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("the loop has no %s to probe", function)
	}
	return found, file, nil
}

// attachAt makes a link by bpf(2)'s BPF_LINK_CREATE.
func attachAt(prog *ebpf.Program, typ ebpf.AttachType, file *os.File, offset uint64, flags uint32, pid int) (int, error) {
	path, err := unix.BytePtrFromString(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return -1, err
	}
	request := struct {
		prog, target, typ, flags       uint32
		path                           *byte
		offsets, refCounters, cookies  *uint64
		count, multiFlags, pid, unused uint32
	}{prog: uint32(prog.FD()), typ: uint32(typ), path: path, offsets: &offset, count: 1, multiFlags: flags, pid: uint32(pid)}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return -1, fmt.Errorf("attach a program: %w", errno)
	}
	return int(fd), nil
}

func (f *floor) stop() error {
	var errs []error
	for _, link := range f.links {
		errs = append(errs, unix.Close(link))
	}
	for _, p := range f.programs {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// entriesOf finds the addresses of functions of the C library in a process.
func entriesOf(pid int, functions ...string) (libc string, addresses []uint64, err error) {
	objects, err := probe.Discover("/proc", pid)
	if err != nil {
		return "", nil, err
	}
	defer probe.CloseAll(objects)
	for i := range objects {
		o := &objects[i]
		for _, p := range o.Probes {
			for _, f := range functions {
				if p.Name != f {
					continue
				}
				for _, r := range o.Text {
					if p.Entry >= r.Offset && p.Entry-r.Offset < r.End-r.Start {
						addresses = append(addresses, r.Start+p.Entry-r.Offset)
					}
				}
			}
		}
		libc = o.Path
	}
	if len(addresses) != len(functions) {
		return "", nil, fmt.Errorf("found %d of %v in the loop", len(addresses), functions)
	}
	return libc, addresses, nil
}

// patched reports whether all addresses hold a breakpoint.
func patched(pid int, addresses []uint64) bool {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false
	}
	defer mem.Close()
	for _, a := range addresses {
		var b [4]byte
		if _, err := mem.ReadAt(b[:], int64(a)); err != nil || !isBreakpoint(b) {
			return false
		}
	}
	return true
}

// isBreakpoint knows int3 and arm64's brk of the kernel's uprobes.
func isBreakpoint(b [4]byte) bool {
	if runtime.GOARCH == "arm64" {
		return b == [4]byte{0xa0, 0x00, 0x20, 0xd4} // BRK #5
	}
	return b[0] == 0xcc
}
