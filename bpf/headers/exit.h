/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls that keep their return address.
 *
 * A return probe puts the kernel's trampoline in place of the return address. No exception passes that, but on few kernels. And a
 * fiber that waits inside the function, and goes on after another one has returned, is sent to the other's caller.
 * So functions that may do such things have probes at their own return instructions: tracer/probe finds those. There
 * the stack pointer is what it was at the entry, and so is the return address; by both a return finds its call.
 *
 * A call that is left otherwise stays in progress until another one shows that it is gone. A release may also return
 * where nobody looks (it jumps on through a pointer, or to free): it is OPEN_ENDED, and the next allocation ends it.
 */
#ifndef MEMTRACE_EXIT_H
#define MEMTRACE_EXIT_H

#include "maps.h"
#include "regs.h"

/*
 * A call in progress encloses none that begins so much deeper: fibers' stacks lie side by side, and theirs that wait inside a
 * function look like outer frames.
 */
#define NEAR_STACK (16 << 10)

#define OPEN_ENDED 2 /* of thread.by_exit */
#define FRAMED     4

/*
 * The kernel's trampoline begins a page. A return probe of somebody else's, of whatever process, puts it in place of the return address of every
 * process that has a probe at the same entry, after that probe's program has seen the entry.
 */
#define IS_TRAMPOLINE(address) (!((address) & 4095))

#if defined(__TARGET_ARCH_x86)

/* The return address, at an entry or a return instruction; 0: unknown. */
static __always_inline u64 return_address(struct pt_regs *ctx)
{
	u64 word;

	return bpf_probe_read_user(&word, sizeof(word), (void *)REG_SP(ctx)) ? 0 : word;
}

/* Whether the call in progress, which keeps its return address, may still be on the stack below which another one begins. */
static __always_inline bool is_on_its_way(struct thread *t, struct pt_regs *ctx)
{
	u64 word;

	if (t->sp - REG_SP(ctx) > NEAR_STACK || (REG_SP(ctx) == t->sp && REG_IP(ctx) == t->outer))
		return false;
	if (bpf_probe_read_user(&word, sizeof(word), (void *)t->sp))
		return false;
	return word == t->ret || IS_TRAMPOLINE(word); /* also where it has jumped to one with a return probe */
}

#define IS_SAME_RETURN(a, b) ((a) == (b) || IS_TRAMPOLINE(a))

#else

static __always_inline u64 return_address(struct pt_regs *ctx)
{
	return REG_LINK(ctx);
}

/* Where pointers are signed, retaa is given a signed one. */
#define IS_SAME_RETURN(a, b) (!(((a) ^ (b)) << 16) || IS_TRAMPOLINE(a))

#define NEAR_FRAMES 16

/* Whether the frame records from the present one outwards do not tell that the call in progress is gone: one of them
 * holds its return address, or they can't be followed. */
static __always_inline bool has_frame(struct thread *t, struct pt_regs *ctx)
{
	u64 from = REG_SP(ctx), record[2] = { REG_FP(ctx) };

	for (int i = 0; i < NEAR_FRAMES; i++) {
		u64 at = record[0];

		if (at >= t->sp)
			return false;
		if (at < from || bpf_probe_read_user(record, sizeof(record), (void *)at) || IS_SAME_RETURN(record[1], t->ret))
			return true;
		from = at + sizeof(record);
	}
	return true;
}

/* Its address is in the frame: in the frame record, where the function keeps one, else nobody knows where. */
static __always_inline bool is_on_its_way(struct thread *t, struct pt_regs *ctx)
{
	if (REG_SP(ctx) == t->sp)
		return REG_IP(ctx) != t->outer && REG_LINK(ctx) == t->ret;
	return t->sp - REG_SP(ctx) <= NEAR_STACK && (!(t->by_exit & FRAMED) || has_frame(t, ctx));
}

#endif

/* Whether the call in progress returns by the instruction that is about to be executed. */
static __always_inline bool is_exit(struct pt_regs *ctx, struct thread *t)
{
	if (t->ending && REG_SP(ctx) == t->ending)
		t->ending = 0;
	return t->sp && t->by_exit && REG_SP(ctx) == t->sp && IS_SAME_RETURN(return_address(ctx), t->ret);
}

#endif
