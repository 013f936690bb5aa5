//go:build linux && !viewer

package procfs

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is one process, held by its directory: a PID that is reused is a
// different Process, and reading this one then fails with ErrGone.
type Process struct {
	pid int
	dir int // O_PATH descriptor of /proc/PID
	// thread is that of /proc/PID/task/TID, through which the memory is read
	// where the first thread has ended and others have not; else -1.
	thread int
	// genuine says that the files are the kernel's own, not a copy of them.
	genuine bool
	keep    bool                // KeepOpen was called
	kept    [len(keptFiles)]int // descriptor + 1 of each of keptFiles, or 0
	comm    string
	cgroup  string
	line    string
}

// PID returns the process's ID as given to FS.Process.
func (p *Process) PID() int { return p.pid }

// Again holds the same process once more, for another goroutine. The caller closes what it returns.
func (p *Process) Again() (*Process, error) {
	dir, err := unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, p.wrap("hold", "directory", err)
	}
	return &Process{pid: p.pid, dir: dir, thread: -1, genuine: p.genuine}, nil
}

// Close lets go of the process's directory. A closed Process is of no use.
func (p *Process) Close() error {
	if p.dir < 0 {
		return nil
	}
	p.dropThread()
	p.dropKept()
	err := unix.Close(p.dir)
	p.dir = -1
	return err
}

// open opens a file of the process for reading.
func (p *Process) open(name string) (int, error) { return openAt(p.dir, name) }

// memoryDir is the directory of the files about the process's memory.
func (p *Process) memoryDir() int {
	if p.thread >= 0 {
		return p.thread
	}
	return p.dir
}

// openAt is unix.Openat without its copy of the name, which is NUL-terminated.
func openAt(dir int, name string) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir),
			uintptr(unsafe.Pointer(unsafe.StringData(name))), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		runtime.KeepAlive(name)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// Names of the files that are read often, as open wants them.
const (
	fileStat   = "stat\x00"
	fileStatm  = "statm\x00"
	fileStatus = "status\x00"
	fileComm   = "comm\x00"
	fileCmd    = "cmdline\x00"
	fileMaps   = "maps\x00"
	fileSmaps  = "smaps\x00"
	fileRollup = "smaps_rollup\x00"
	filePages  = "pagemap\x00"

	fileNuma     = "numa_maps\x00"
	fileCgroup   = "cgroup\x00"
	fileOOMScore = "oom_score\x00"
	fileOOMAdj   = "oom_score_adj\x00"
)

// plain returns a name without its NUL, for messages.
func plain(name string) string { return name[:len(name)-1] }

// readSmall reads a file that the kernel renders in one piece (stat, statm,
// status, comm, smaps_rollup) into buf: a short read is a complete one.
// What doesn't fit in buf is cut off.
func (p *Process) readSmall(name string, buf []byte) ([]byte, error) {
	return p.readFrom(p.dir, name, buf)
}

// readMemory is readSmall for the files about the process's memory.
func (p *Process) readMemory(name string, buf []byte) ([]byte, error) {
	data, err := p.readFrom(p.memoryDir(), name, buf)
	if errors.Is(err, ErrGone) && p.adoptThread() {
		return p.readFrom(p.memoryDir(), name, buf)
	}
	return data, err
}

func (p *Process) readFrom(dir int, name string, buf []byte) ([]byte, error) {
	if slot := p.keptSlot(dir, name); slot >= 0 {
		return p.readKept(slot, name, buf)
	}
	fd, err := openAt(dir, name)
	if err != nil {
		return nil, p.wrap("open", plain(name), err)
	}
	n, err := readRetry(fd, buf)
	_ = unix.Close(fd) // nothing is lost by closing a file that was only read
	if err != nil {
		return nil, p.wrap("read", plain(name), err)
	}
	return buf[:n], nil
}

// readRetry is read(2) that isn't interrupted by signals.
func readRetry(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}
