package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mappedCode reports whether the system call that has just returned in a
// stopped thread mapped executable memory.
func mappedCode(tid int) (bool, error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return false, fmt.Errorf("read the registers of thread %d: %w", tid, err)
	}
	switch regs.Regs[8] {
	case unix.SYS_MMAP, unix.SYS_MPROTECT:
		return regs.Regs[2]&unix.PROT_EXEC != 0, nil
	}
	return false, nil
}

// Places in the words of NT_PRSTATUS (struct user_pt_regs).
const (
	regCall  = 8 // x8
	regStack = 31

	regArgument = 0
)
