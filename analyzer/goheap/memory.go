//go:build linux && !viewer

package goheap

import (
	"golang.org/x/sys/unix"
)

// memory is that of a process, by process_vm_readv(2): it needs no stop.
type memory struct{ pid int }

// ReadAt reads up to what can't be read.
func (m memory) ReadAt(into []byte, at int64) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	// Without pages of its own in the list, a call that meets a page that can't be read gives nothing of those before.
	const most = block / page
	local := unix.Iovec{Base: &into[0]}
	local.SetLen(len(into))
	var remote [most]unix.RemoteIovec
	n := 0
	for off := 0; off < len(into) && n < most; n++ {
		step := min(page, len(into)-off)
		remote[n] = unix.RemoteIovec{Base: uintptr(at) + uintptr(off), Len: step}
		off += step
	}
	got, err := unix.ProcessVMReadv(m.pid, []unix.Iovec{local}, remote[:n], 0)
	return max(got, 0), err
}
