#include "textflag.h"

// func calibrationLoop(n uint64): calls of calibrationSpot, with nothing else.
TEXT ·calibrationLoop(SB), NOSPLIT, $8-8
	MOVQ n+0(FP), R12
loop:
	XORL DI, DI
	CALL ·calibrationSpot(SB)
	DECQ R12
	JNZ  loop
	RET

// calibrationSpot is where the probe sits. The kernel emulates a nop.
TEXT ·calibrationSpot(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x90
	RET

// func calibrationAddress() uint64: where calibrationSpot is; Go itself would give that of a wrapper.
TEXT ·calibrationAddress(SB), NOSPLIT, $0-8
	LEAQ ·calibrationSpot(SB), AX
	MOVQ AX, ret+0(FP)
	RET
