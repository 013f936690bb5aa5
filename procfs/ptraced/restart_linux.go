//go:build linux && (amd64 || arm64)

package ptraced

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const ptraceInterrupt = 0x4207 // include/uapi/linux/ptrace.h

// Interrupt stops a thread that its caller has under ptrace, by PTRACE_INTERRUPT. The call that it waited in is for
// Restart. The error is ptrace's.
func Interrupt(tid int) (Call, error) {
	before := callBefore(tid)
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, ptraceInterrupt, uintptr(tid), 0, 0, 0, 0); errno != 0 {
		return Call{}, errno
	}
	return before, nil
}

// waitsForever reports whether a system call is one that returns EINTR after a stop, and has no limit of time.
func waitsForever(number uint64, args *[6]uint64) bool {
	const extendedArgument = 1 << 3 // IORING_ENTER_EXT_ARG: a limit may be behind it; include/uapi/linux/io_uring.h
	switch number {
	case unix.SYS_SEMOP:
		return true
	case unix.SYS_EPOLL_PWAIT:
		return int32(args[3]) < 0
	case unix.SYS_EPOLL_PWAIT2, unix.SYS_SEMTIMEDOP:
		return args[3] == 0
	case unix.SYS_IO_URING_ENTER:
		return args[3]&extendedArgument == 0
	case unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS:
		return args[4] == 0
	case unix.SYS_RT_SIGTIMEDWAIT:
		return args[2] == 0
	}
	return false
}

// entered reports whether the instruction before pc is the one that a call is begun with.
func entered(tid int, pc uint64) bool {
	code := make([]byte, len(syscallCode))
	local := unix.Iovec{Base: &code[0]}
	local.SetLen(len(code))
	remote := unix.RemoteIovec{Base: uintptr(pc) - uintptr(len(code)), Len: len(code)}
	_, err := unix.ProcessVMReadv(tid, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	return err == nil && string(code) == syscallCode
}

// signalComes reports whether a signal waits for a thread that doesn't block it, or may.
func signalComes(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return true
	}
	masks := make(map[string]uint64)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":\t")
		if masks[name], err = strconv.ParseUint(strings.TrimSpace(value), 16, 64); err != nil {
			delete(masks, name)
		}
	}
	blocked, ok := masks["SigBlk"]
	return !ok || (masks["SigPnd"]|masks["ShdPnd"])&^blocked != 0
}
