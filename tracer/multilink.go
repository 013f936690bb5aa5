package tracer

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/anchor"
)

// Attach types of include/uapi/linux/bpf.h. The library attaches uprobe_multi
// but not yet sessions; both take the same request.
const (
	attachUprobeMulti   = ebpf.AttachTraceUprobeMulti // 6.6
	attachUprobeSession = ebpf.AttachType(57)         // 6.13
)

const multiReturn = 1 // BPF_F_UPROBE_MULTI_RETURN

// multiRequest is the uprobe_multi form of bpf(2)'s BPF_LINK_CREATE.
type multiRequest struct {
	progFD, targetFD uint32
	attachType       uint32
	flags            uint32
	path             *byte
	offsets          *uint64
	refCtrOffsets    *uint64
	cookies          *uint64
	count            uint32
	multiFlags       uint32
	pid              uint32
	_                uint32
}

// multiPlace is one place of a link.
type multiPlace struct {
	offset    uint64 // in the file
	semaphore uint64 // file offset of the counter that the kernel raises there; 0: none
	cookie    uint64
}

// attachMulti puts one link over many places of the file at path, scoped to
// the process pid. The kernel registers them in the order given.
func attachMulti(prog *ebpf.Program, typ ebpf.AttachType, ret bool, path string, pid uint32, places []multiPlace) (link.Link, error) {
	n := len(places)
	offsets, semaphores, cookies := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	for i, p := range places {
		offsets[i], semaphores[i], cookies[i] = p.offset, p.semaphore, p.cookie
	}
	cpath, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("attach to %q: %w", path, err)
	}
	req := multiRequest{
		progFD: uint32(prog.FD()), attachType: uint32(typ),
		path: cpath, offsets: &offsets[0], refCtrOffsets: &semaphores[0], cookies: &cookies[0],
		count: uint32(n), pid: pid,
	}
	if ret {
		req.multiFlags = multiReturn
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&req)), unsafe.Sizeof(req))
	runtime.KeepAlive(prog)
	runtime.KeepAlive(&req)
	if errno != 0 {
		return nil, fmt.Errorf("attach to %d places of %s: %w", n, path, errno)
	}
	l, err := link.NewFromFD(int(fd))
	if err != nil {
		return nil, fmt.Errorf("take over the link on %s: %w", path, err)
	}
	return l, nil
}

// anchored sees to it that no thread is ended as the probes of its process go, before there are any in the file at path.
// A kernel without uprobes of perf has to do without.
func anchored(path string, offset uint64) { _ = anchor.Hold(path, offset) }
