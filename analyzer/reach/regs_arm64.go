//go:build linux && !viewer

package reach

const regStack = 31 // sp in struct user_pt_regs

const regThread = -1 // tpidr_el0 is in a set of its own
// redZone: nothing below the stack pointer may be used (AAPCS64, universal stack constraints).
const redZone = 0

// recordOffset is where a struct pthread has its list (nptl/descr.h: the header before it has that size).
const recordOffset = 0xc0

const swissGroup = 8 // hashbrown's groups of control bytes, with NEON
