//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/procfs/internal/text"
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

// TaskStackPointer returns the user stack pointer of one of the process's
// threads from /proc/PID/task/TID/syscall; ok is false where the thread runs
// at the moment, so that the kernel has none to tell. It takes no lock of the
// target's. ErrGone: the thread has ended. It needs the right to ptrace the
// process, and a kernel with CONFIG_HAVE_ARCH_TRACEHOOK.
func (p *Process) TaskStackPointer(tid int) (sp uint64, ok bool, err error) {
	line, err := p.readTask(tid, "syscall")
	if err != nil {
		return 0, false, err
	}
	sp, ok, err = parseSyscall([]byte(line))
	if err != nil {
		return 0, false, p.wrap("parse", "syscall", err)
	}
	return sp, ok, nil
}

// parseSyscall takes the stack pointer, the last but one field, from
// "running", "-1 0xSP 0xPC" (blocked outside a system call) or
// "nr 0xARG… 0xSP 0xPC".
func parseSyscall(data []byte) (sp uint64, ok bool, err error) {
	data = bytes.TrimSuffix(data, []byte("\n"))
	if string(data) == "running" {
		return 0, false, nil
	}
	last := bytes.LastIndexByte(data, ' ')
	before := bytes.LastIndexByte(data[:max(last, 0)], ' ')
	if before < 0 {
		return 0, false, fmt.Errorf("%w: %.80q", ErrFormat, data)
	}
	digits, prefixed := bytes.CutPrefix(data[before+1:last], []byte("0x"))
	sp, rest, valid := text.Hexadecimal(digits)
	if !prefixed || !valid || len(rest) > 0 {
		return 0, false, fmt.Errorf("%w: %.80q", ErrFormat, data)
	}
	return sp, sp != 0, nil
}
