#include "textflag.h"

// func calibrationLoop(n uint64): calls of calibrationSpot, with nothing else.
TEXT ·calibrationLoop(SB), NOSPLIT, $16-8
	MOVD n+0(FP), R20
loop:
	MOVD $0, R0
	CALL ·calibrationSpot(SB)
	SUBS $1, R20, R20
	BNE  loop
	RET

// calibrationSpot is where the probe sits. The kernel emulates a branch to the next instruction.
TEXT ·calibrationSpot(SB), NOSPLIT|NOFRAME, $0-0
	B   next
next:
	RET

// func calibrationAddress() uint64: where calibrationSpot is; Go itself would give that of a wrapper.
TEXT ·calibrationAddress(SB), NOSPLIT, $0-8
	MOVD $·calibrationSpot(SB), R0
	MOVD R0, ret+0(FP)
	RET
