package ptraced

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Restart has a thread begin its system call again that PTRACE_INTERRUPT broke off, once it is let go. It is called at
// that stop, on the thread that is its tracer.
//
// Most calls the kernel itself restarts after a stop. Some return EINTR instead, signal(7) lists them, and a program
// without signals need not expect that. Those that wait without a limit are begun again, as if the stop had come just
// before them. One with a limit would wait for too long then: it returns EINTR, as after SIGSTOP and SIGCONT. So does
// one that a signal is on its way to, as the program may want to see it.
func Restart(tid int) {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil || !brokenOff(&regs) || !waitsForever(&regs) || !entered(tid, &regs) || signalComes(tid) {
		return
	}
	regs.Rax = regs.Orig_rax
	regs.Rip -= uint64(len(syscallCode))
	_ = unix.PtraceSetRegs(tid, &regs) // it may have been killed
}

// syscallCode is the instruction by which a thread in 64-bit mode enters the kernel.
const syscallCode = "\x0f\x05"

// codeSegment is that of 64-bit mode, where calls have the numbers below; arch/x86/include/asm/segment.h.
const codeSegment = 0x33

func brokenOff(regs *unix.PtraceRegs) bool {
	return int64(regs.Rax) == -int64(unix.EINTR) && int64(regs.Orig_rax) >= 0 && regs.Cs == codeSegment
}

// waitsForever reports whether a call is one that returns EINTR after a stop, and has no limit of time.
func waitsForever(regs *unix.PtraceRegs) bool {
	const extendedArgument = 1 << 3 // IORING_ENTER_EXT_ARG: a limit may be behind it; include/uapi/linux/io_uring.h
	switch regs.Orig_rax {
	case unix.SYS_SEMOP:
		return true
	case unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT:
		return int32(regs.R10) < 0
	case unix.SYS_EPOLL_PWAIT2, unix.SYS_SEMTIMEDOP:
		return regs.R10 == 0
	case unix.SYS_IO_URING_ENTER:
		return regs.R10&extendedArgument == 0
	case unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS:
		return regs.R8 == 0
	case unix.SYS_RT_SIGTIMEDWAIT:
		return regs.Rdx == 0
	}
	return false
}

// entered reports whether the instruction before is the one that a call is begun with.
func entered(tid int, regs *unix.PtraceRegs) bool {
	code := make([]byte, len(syscallCode))
	local := unix.Iovec{Base: &code[0]}
	local.SetLen(len(code))
	remote := unix.RemoteIovec{Base: uintptr(regs.Rip) - uintptr(len(code)), Len: len(code)}
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
