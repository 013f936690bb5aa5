package ptraced

import "golang.org/x/sys/unix"

// Call is what must be known of a thread's system call before a stop: nothing here.
type Call struct{}

func callBefore(int) Call { return Call{} }

// Restart has a thread begin its system call again that Interrupt broke off, once it is let go. It is called at
// that stop, on the thread that is its tracer.
//
// Most calls the kernel itself restarts after a stop. Some return EINTR instead, signal(7) lists them, and a program
// without signals need not expect that. Those that wait without a limit are begun again, as if the stop had come just
// before them. One with a limit would wait for too long then: it returns EINTR, as after SIGSTOP and SIGCONT. So does
// one that a signal is on its way to, as the program may want to see it.
func Restart(tid int, _ Call) {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil || !brokenOff(&regs) || !waits(&regs) ||
		!entered(tid, regs.Rip) || signalComes(tid) {
		return
	}
	regs.Rax = regs.Orig_rax
	regs.Rip -= uint64(len(syscallCode))
	_ = unix.PtraceSetRegs(tid, &regs) // it may have been killed
}

// syscallCode is the instruction by which a thread in 64-bit mode enters the kernel.
const syscallCode = "\x0f\x05"

// codeSegment is that of 64-bit mode, where calls have the numbers of package unix; arch/x86/include/asm/segment.h.
const codeSegment = 0x33

func brokenOff(regs *unix.PtraceRegs) bool {
	return int64(regs.Rax) == -int64(unix.EINTR) && int64(regs.Orig_rax) >= 0 && regs.Cs == codeSegment
}

func waits(regs *unix.PtraceRegs) bool {
	number := regs.Orig_rax
	if number == unix.SYS_EPOLL_WAIT {
		number = unix.SYS_EPOLL_PWAIT // whose arguments are the same, and one more
	}
	return waitsForever(number, &[6]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9})
}
