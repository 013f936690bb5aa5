package unwind

import (
	"debug/elf"
	"fmt"
	"strings"
)

// Kind is how a rule finds the canonical frame address (CFA): the value of the
// stack pointer once the function has returned. The numbers are those of enum
// rule_kind in bpf/headers/unwind_maps.h.
type Kind uint8

const (
	// None means that nothing is known: there is no row, or one that the
	// unwinder can't follow.
	None Kind = iota
	// SP is the stack pointer plus CFA.
	SP
	// FP is the frame pointer plus CFA.
	FP
	// Register is the callee-saved register Reg plus CFA.
	Register
	// Deref is the word at register Reg plus CFA.
	Deref
	// PLT is the stack pointer plus 8, and 8 more from byte Param of each
	// 16-byte entry of a procedure linkage table on.
	PLT
	// Signal is a frame that the kernel made to call a signal handler: all
	// registers are in it.
	Signal
	// End is the outermost frame of a thread: its return address is undefined.
	End
	// Switch is a function that has changed to another stack: the frame pointer
	// leads back, to where it saved its caller's below its return address.
	Switch
)

// SavedRegisters is how many callee-saved registers a Rule tells of.
const SavedRegisters = 6

// Rule says how to get from a frame to its caller's.
type Rule struct {
	Kind   Kind
	Reg    uint8 // Register, Deref: index in Saved
	FromFP uint8 // bit n: Saved[n] counts from the frame pointer, not from the CFA
	Param  uint8 // PLT
	CFA    int32 // bytes
	// Saved is where the caller's registers lie, in words of 8 bytes from the
	// CFA; 0 means that the register is unchanged. The first is the frame
	// pointer, the others are the machine's (see registersOf).
	Saved [SavedRegisters]int16
}

// String shows the rule as readelf does, such as "sp+16 s0=c-16".
func (r Rule) String() string {
	var b strings.Builder
	switch r.Kind {
	case None:
		return "none"
	case Signal:
		return "signal"
	case End:
		return "end"
	case Switch:
		return "switch"
	case SP:
		fmt.Fprintf(&b, "sp%+d", r.CFA)
	case FP:
		fmt.Fprintf(&b, "fp%+d", r.CFA)
	case Register:
		fmt.Fprintf(&b, "s%d%+d", r.Reg, r.CFA)
	case Deref:
		fmt.Fprintf(&b, "[s%d%+d]", r.Reg, r.CFA)
	case PLT:
		fmt.Fprintf(&b, "plt>=%d", r.Param)
	}
	for i, at := range r.Saved {
		if r.FromFP>>i&1 != 0 {
			fmt.Fprintf(&b, " s%d=fp%+d", i, 8*int(at))
		} else if at != 0 {
			fmt.Fprintf(&b, " s%d=c%+d", i, 8*int(at))
		}
	}
	return b.String()
}

// machine is what the rules of one architecture differ in.
type machine struct {
	sp, fp, ra uint64                 // DWARF numbers
	saved      [SavedRegisters]uint64 // DWARF numbers of Rule.Saved
	// raSaved is the index in saved of the return address's register; -1
	// where calls push the return address, so that it lies right below the CFA.
	raSaved int
	// restorer is what signal handlers return to: the system call rt_sigreturn.
	restorer []byte
}

var machines = map[elf.Machine]*machine{
	// rbp rbx r12 r13 r14 r15
	elf.EM_X86_64: {sp: 7, fp: 6, ra: 16, saved: [...]uint64{6, 3, 12, 13, 14, 15}, raSaved: -1,
		restorer: []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}}, // mov $15, %rax; syscall
	// x29 x30 x19 x20 x21 x22
	elf.EM_AARCH64: {sp: 31, fp: 29, ra: 30, saved: [...]uint64{29, 30, 19, 20, 21, 22}, raSaved: 1,
		restorer: []byte{0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}}, // mov x8, #139; svc #0
}

// index returns the place of a DWARF register in Saved, or -1.
func (m *machine) index(reg uint64) int {
	for i, r := range m.saved {
		if r == reg {
			return i
		}
	}
	return -1
}
