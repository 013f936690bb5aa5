#include "textflag.h"

// func calibrationLoop(n, spot uint64): calls of a spot, with nothing else.
TEXT ·calibrationLoop(SB), NOSPLIT, $16-16
	MOVD n+0(FP), R20
	MOVD spot+8(FP), R21
loop:
	MOVD $0, R0
	CALL (R21)
	SUBS $1, R20, R20
	BNE  loop
	RET

// calibrationEntry is where a probe of entries alone sits. The kernel emulates a branch to the next instruction.
TEXT ·calibrationEntry(SB), NOSPLIT|NOFRAME, $0-0
	B   next
next:
	RET

// calibrationReturn is where a probe of both ends sits.
TEXT ·calibrationReturn(SB), NOSPLIT|NOFRAME, $0-0
	B   next
next:
	RET

// calibrationExit is where a probe of a return instruction sits. The kernel simulates it.
TEXT ·calibrationExit(SB), NOSPLIT|NOFRAME, $0-0
	RET

// func calibrationSpots() (entry, both, exit uint64): where they are; Go itself would give those of wrappers.
TEXT ·calibrationSpots(SB), NOSPLIT, $0-24
	MOVD $·calibrationEntry(SB), R0
	MOVD R0, entry+0(FP)
	MOVD $·calibrationReturn(SB), R0
	MOVD R0, both+8(FP)
	MOVD $·calibrationExit(SB), R0
	MOVD R0, exit+16(FP)
	RET
