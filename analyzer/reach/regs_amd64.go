//go:build linux && !viewer

package reach

const regStack = 19 // rsp in struct user_regs_struct

// redZone is the memory below the stack pointer that a function may use
// without moving it (System V ABI for x86-64, 3.2.2).
const redZone = 128

const regThread = 21 // fs_base

// recordOffset is where a struct pthread has its list (nptl/descr.h: the header before it has that size).
const recordOffset = 0x2c0

const swissGroup = 16 // hashbrown's groups of control bytes, with SSE2
