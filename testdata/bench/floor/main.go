// Command floor attaches empty BPF programs to malloc and free of a process,
// at the places that memtrace would choose, and waits to be ended. What the
// process then costs is the floor: no tracer by uprobes can be below it.
//
//	usage: floor PID
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/memtrace/memtrace/tracer/probe"
	"golang.org/x/sys/unix"
)

const uprobeSession = ebpf.AttachType(57) // 6.13

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: floor PID")
	}
	pid, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return fmt.Errorf("read the PID: %w", err)
	}
	objects, err := probe.Discover("/proc", pid)
	if err != nil {
		return fmt.Errorf("find the allocator of %d: %w", pid, err)
	}
	defer probe.CloseAll(objects)
	done := make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGTERM, syscall.SIGINT)
	for name, typ := range map[string]ebpf.AttachType{"malloc": uprobeSession, "free": ebpf.AttachTraceUprobeMulti} {
		if err := attach(objects, name, typ, pid); err != nil {
			return err
		}
	}
	fmt.Println("attached")
	<-done
	return nil
}

// attach puts an empty program at the function called name; it stays as long as this process.
func attach(objects []probe.Object, name string, typ ebpf.AttachType, pid int) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: typ, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load an empty program for %s: %w", name, err)
	}
	for _, object := range objects {
		for _, p := range object.Probes {
			if p.Name == name {
				return attachAt(prog, typ, object.File, p.Offset, pid)
			}
		}
	}
	return fmt.Errorf("no function %s to probe in process %d", name, pid)
}

// attachAt makes a uprobe_multi link; see BPF_LINK_CREATE in bpf(2).
func attachAt(prog *ebpf.Program, typ ebpf.AttachType, file *os.File, offset uint64, pid int) error {
	path, err := unix.BytePtrFromString(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return err
	}
	request := struct {
		prog, target, typ, flags       uint32
		path                           *byte
		offsets, refCounters, cookies  *uint64
		count, multiFlags, pid, unused uint32
	}{prog: uint32(prog.FD()), typ: uint32(typ), path: path, offsets: &offset, count: 1, pid: uint32(pid)}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return fmt.Errorf("attach an empty program (needs Linux 6.13): %w", errno)
	}
	return nil
}
