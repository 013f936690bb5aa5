#include "textflag.h"

// func calibrationLoop(n, spot uint64): calls of a spot, with nothing else.
TEXT ·calibrationLoop(SB), NOSPLIT, $8-16
	MOVQ n+0(FP), R12
	MOVQ spot+8(FP), R13
loop:
	XORL DI, DI
	CALL R13
	DECQ R12
	JNZ  loop
	RET

// calibrationEntry is where a probe of entries alone sits. The kernel emulates a nop.
TEXT ·calibrationEntry(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x90
	RET

// calibrationReturn is where a probe of both ends sits.
TEXT ·calibrationReturn(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x90
	RET

// calibrationExit is where a probe of a return instruction sits. The kernel steps it.
TEXT ·calibrationExit(SB), NOSPLIT|NOFRAME, $0-0
	RET

// func calibrationSpots() (entry, both, exit uint64): where they are; Go itself would give those of wrappers.
TEXT ·calibrationSpots(SB), NOSPLIT, $0-24
	LEAQ ·calibrationEntry(SB), AX
	MOVQ AX, entry+0(FP)
	LEAQ ·calibrationReturn(SB), AX
	MOVQ AX, both+8(FP)
	LEAQ ·calibrationExit(SB), AX
	MOVQ AX, exit+16(FP)
	RET
