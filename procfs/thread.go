//go:build linux && !viewer

package procfs

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// A process whose first thread called pthread_exit runs on, but its files in
// /proc/PID about memory are those of a zombie: empty. The other threads
// share the memory, and have the same files in /proc/PID/task/TID.

// maxAdopt bounds how many threads are tried; all but the first leave /proc
// as soon as they end.
const maxAdopt = 16

// adoptThread reports whether the memory can be read through another thread
// than up to now, and sees to it that it will be.
func (p *Process) adoptThread() bool {
	st, err := p.Stat()
	if err == nil && !st.Zombie() && p.thread >= 0 {
		p.dropThread() // another thread called exec, and became the first
		return true
	}
	if err != nil || !st.Zombie() || st.NumThreads < 2 {
		return false
	}
	p.dropThread()
	tids, err := p.Tasks()
	if err != nil {
		return false
	}
	for _, tid := range tids[:min(len(tids), maxAdopt)] {
		if tid == p.pid {
			continue
		}
		fd, err := unix.Openat(p.dir, "task/"+strconv.Itoa(tid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if hasMemory(fd) {
			p.thread = fd
			return true
		}
		_ = unix.Close(fd)
	}
	return false
}

// hasMemory reports whether the thread of a /proc/PID/task/TID has memory.
func hasMemory(dir int) bool {
	fd, err := openAt(dir, fileStatm)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [256]byte
	n, err := readRetry(fd, buf[:])
	if err != nil {
		return false
	}
	s, err := parseStatm(buf[:n], pageSize)
	return err == nil && s.Size > 0
}

// dropThread goes back to the first thread.
func (p *Process) dropThread() {
	if p.thread >= 0 {
		_ = unix.Close(p.thread)
		p.thread = -1
	}
}
