/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Access to the registers of the probed thread. The tracer says in the attach
 * cookie which register holds each argument at the probed instruction
 * (tracer/probe.Reg has the same numbers), since a probe seldom sits at the
 * function's entry.
 */
#ifndef MEMTRACE_REGS_H
#define MEMTRACE_REGS_H

#include "kernel.h"

/*
 * A context load whose offset stays a constant: left to itself, clang merges
 * the loads of a switch into one with a computed offset, which the verifier
 * refuses.
 */
#define LOAD_REG(ctx, field)                                            \
	({                                                              \
		u64 __v;                                                \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                   \
			     : "=r"(__v)                                \
			     : "r"(ctx), "i"(offsetof(struct pt_regs, field))); \
		__v;                                                    \
	})

#if defined(__TARGET_ARCH_x86)

#define REG_IP(ctx) LOAD_REG(ctx, ip)
#define REG_SP(ctx) LOAD_REG(ctx, sp)
#define REG_FP(ctx) LOAD_REG(ctx, bp)
#define REG_RESULT(ctx) LOAD_REG(ctx, ax)
#define REG_LINK(ctx) 0 /* return addresses are on the stack */
/* The stack pointer after the return of a function entered at sp. */
#define SP_AFTER_RETURN(sp) ((sp) + 8)

static __always_inline u64 reg_value(struct pt_regs *ctx, u32 reg)
{
	switch (reg) {
	case 1: return LOAD_REG(ctx, di);
	case 2: return LOAD_REG(ctx, si);
	case 3: return LOAD_REG(ctx, dx);
	case 4: return LOAD_REG(ctx, cx);
	case 5: return LOAD_REG(ctx, r8);
	case 6: return LOAD_REG(ctx, r9);
	case 7: return LOAD_REG(ctx, ax);
	case 8: return LOAD_REG(ctx, bx);
	case 9: return LOAD_REG(ctx, bp);
	case 10: return LOAD_REG(ctx, r10);
	case 11: return LOAD_REG(ctx, r11);
	case 12: return LOAD_REG(ctx, r12);
	case 13: return LOAD_REG(ctx, r13);
	case 14: return LOAD_REG(ctx, r14);
	case 15: return LOAD_REG(ctx, r15);
	}
	return 0;
}

/* Arguments of a kernel function, at its kprobe. */
#define KERNEL_ARG2(ctx) ((ctx)->si)
#define KERNEL_ARG3(ctx) ((ctx)->dx)

#elif defined(__TARGET_ARCH_arm64)

#define REG_IP(ctx) LOAD_REG(ctx, pc)
#define REG_SP(ctx) LOAD_REG(ctx, sp)
#define REG_FP(ctx) LOAD_REG(ctx, regs[29])
#define REG_RESULT(ctx) LOAD_REG(ctx, regs[0])
#define REG_LINK(ctx) LOAD_REG(ctx, regs[30])
#define SP_AFTER_RETURN(sp) (sp)

static __always_inline u64 reg_value(struct pt_regs *ctx, u32 reg)
{
	switch (reg) {
	case 1: return LOAD_REG(ctx, regs[0]);
	case 2: return LOAD_REG(ctx, regs[1]);
	case 3: return LOAD_REG(ctx, regs[2]);
	case 4: return LOAD_REG(ctx, regs[3]);
	case 5: return LOAD_REG(ctx, regs[4]);
	case 6: return LOAD_REG(ctx, regs[5]);
	}
	return 0;
}

#define KERNEL_ARG2(ctx) ((ctx)->regs[1])
#define KERNEL_ARG3(ctx) ((ctx)->regs[2])

#endif
#endif
