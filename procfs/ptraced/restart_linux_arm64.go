package ptraced

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Call is a system call that a thread waited in before a stop: the call's result takes the place of its first argument,
// which is kept nowhere that ptrace could read. The zero Call is none.
type Call struct {
	number uint64
	args   [6]uint64
	sp, pc uint64
}

// callBefore reads /proc/TID/syscall, proc(5): none where the thread runs.
func callBefore(tid int) Call {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
	if err != nil {
		return Call{}
	}
	return parseCall(string(text))
}

func parseCall(text string) (c Call) {
	number := int64(-1)
	_, err := fmt.Fscanf(strings.NewReader(text), "%d 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x", &number,
		&c.args[0], &c.args[1], &c.args[2], &c.args[3], &c.args[4], &c.args[5], &c.sp, &c.pc)
	if err != nil || number < 0 {
		return Call{}
	}
	c.number = uint64(number)
	return c
}

// Restart has a thread begin its system call again that Interrupt broke off, once it is let go. It is called at
// that stop, on the thread that is its tracer, with what Interrupt returned.
//
// Most calls the kernel itself restarts after a stop. Some return EINTR instead, signal(7) lists them, and a program
// without signals need not expect that. Those that wait without a limit are begun again, as if the stop had come just
// before them. One with a limit would wait for too long then: it returns EINTR, as after SIGSTOP and SIGCONT. So does
// one that a signal is on its way to, as the program may want to see it, and one that began after Interrupt looked.
func Restart(tid int, before Call) {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil || !before.isBrokenOff(&regs) || !waitsForever(before.number, &before.args) ||
		!entered(tid, regs.Pc) || signalComes(tid) {
		return
	}
	regs.Regs[0] = before.args[0]
	regs.Pc -= uint64(len(syscallCode))
	_ = unix.PtraceSetRegs(tid, &regs) // it may have been killed
}

// syscallCode is svc #0, in 64-bit mode, where calls have the numbers of package unix.
const syscallCode = "\x01\x00\x00\xd4"

// isBrokenOff reports whether a thread has just returned from the call.
func (c *Call) isBrokenOff(regs *unix.PtraceRegs) bool {
	const mode32 = 1 << 4 // PSR_MODE32_BIT; arch/arm64/include/uapi/asm/ptrace.h
	return c.pc != 0 && int64(regs.Regs[0]) == -int64(unix.EINTR) && regs.Pstate&mode32 == 0 &&
		regs.Pc == c.pc && regs.Sp == c.sp && regs.Regs[8] == c.number && slices.Equal(regs.Regs[1:6], c.args[1:])
}
