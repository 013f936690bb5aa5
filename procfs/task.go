package procfs

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Tasks returns the IDs of the process's threads, ascending. Threads that
// start or end meanwhile may be missed.
func (p *Process) Tasks() ([]int, error) {
	fd, err := p.open("task\x00")
	if err != nil {
		return nil, p.wrap("open", "task", err)
	}
	dir := os.NewFile(uintptr(fd), "task")
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, p.wrap("list", "task", err)
	}
	tids := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	if len(tids) == 0 {
		return nil, p.wrap("list", "task", ErrGone)
	}
	slices.Sort(tids)
	return tids, nil
}

// TaskComm reads the name of one of the process's threads.
// A thread that has ended gives ErrGone.
func (p *Process) TaskComm(tid int) (string, error) {
	name, err := p.readTask(tid, "comm")
	if err != nil {
		return "", err
	}
	if n := len(name); n > 0 && name[n-1] == '\n' {
		name = name[:n-1]
	}
	return name, nil
}

// readTask reads a small file of a thread.
func (p *Process) readTask(tid int, file string) (string, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	fd, err := p.open("task/" + strconv.Itoa(tid) + "/" + file + "\x00")
	if err == unix.ENOENT || err == unix.ESRCH {
		return "", fmt.Errorf("open %s of thread %d of process %d: %w", file, tid, p.pid, ErrGone)
	}
	if err != nil {
		return "", p.wrap("open", file, err)
	}
	n, err := readRetry(fd, buf[:])
	_ = unix.Close(fd)
	if err == unix.ESRCH {
		return "", fmt.Errorf("read %s of thread %d of process %d: %w", file, tid, p.pid, ErrGone)
	}
	if err != nil {
		return "", p.wrap("read", file, err)
	}
	return string(buf[:n]), nil
}
