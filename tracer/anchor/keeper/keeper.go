// Package keeper makes a process of memtrace's own executable one that keeps descriptors until memtrace has ended, and
// a second longer: whatever ended it, SIGKILL too.
//
// It does so as its init, before most other packages have theirs (see package shim of tracer/launch).
package keeper

import (
	"strconv"
	"syscall"
	"unsafe"

	"github.com/memtrace/memtrace/tracer/launch/shim"
)

// Name is argv[0] of an executable with this package in it that is to keep descriptors.
const Name = "memtrace-anchor"

// Args is argv of a keeper for the process with that PID. Its stdin is a stream socket: each byte comes with a descriptor, and
// is answered by Kept or Refused.
func Args(pid int) []string { return []string{Name, strconv.Itoa(pid)} }

// Answers of a keeper.
const (
	Kept    = 'y'
	Refused = 'n'
)

func init() {
	if args := shim.OwnArgs(Name); len(args) == 2 {
		syscall.Exit(keep(args[1]))
	}
}

const (
	stopSignals = 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGHUP-1)
	look        = 20e6 // ns between two looks whether memtrace is gone
	longer      = 1e9  // ns
)

// keep keeps what comes until the process word, its parent, is gone, and returns an exit code.
func keep(word string) int {
	parent, err := strconv.Atoi(word)
	if err != nil {
		return 1
	}
	// What stops memtrace's terminal or unit is sent to all of its processes.
	if shim.Ignore(stopSignals) != nil {
		return 1
	}
	// ps and top would show it as "exe", what the executable is called in /proc.
	name := append([]byte(Name), 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0)
	closeInherited()
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it keeps fewer, and says so
	}
	for take() {
	}
	// The socket may be closed before the probes are. A process has other parents once its own is gone with all that
	// it had open.
	for syscall.Getppid() == parent {
		sleep(look)
	}
	sleep(longer)
	return 0
}

// closeInherited closes what memtrace was started with, beside its streams: whoever has the other end of a pipe waits
// for all of them.
func closeInherited() {
	const most = 1024
	for fd := uintptr(3); fd < most; fd++ {
		if flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0); errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			_ = syscall.Close(int(fd))
		}
	}
}

// take takes a descriptor; false means that there are no more.
func take() bool {
	var one [1]byte
	room := make([]byte, syscall.CmsgSpace(4))
	n, control, flags, _, err := syscall.Recvmsg(0, one[:], room, syscall.MSG_CMSG_CLOEXEC)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || n == 0 {
		return false
	}
	one[0] = Refused
	if control > 0 && flags&syscall.MSG_CTRUNC == 0 {
		one[0] = Kept
	}
	_, err = syscall.Write(0, one[:])
	return err == nil
}

func sleep(ns int64) {
	left := syscall.NsecToTimespec(ns)
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
