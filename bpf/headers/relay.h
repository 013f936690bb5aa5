/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls that a function hands on to another probed one, by a jump.
 *
 * glibc's aligned_alloc leaves alignments that every block has to malloc (malloc.c, _mid_memalign). Such
 * a call costs three traps: its entry, malloc's, and its return, for which nothing is predicted.
 * malloc alone would tell as much, from the same stack: so the entry is
 * passed over. That the code does as the source says is seen first, at so many calls of each thread, and then at
 * one of so many.
 */
#ifndef MEMTRACE_RELAY_H
#define MEMTRACE_RELAY_H

#include "predict.h"

#define MALLOC_ALIGNMENT 16 /* of glibc, where pointers have 8 bytes */

enum relay {
	RELAY_NONE,
	RELAY_CHECKED, /* the call in progress is expected to be handed on */
	RELAY_SEEN,    /* it has been */
	RELAY_PASSED,  /* nothing is to be done about it */
};

/* What is to be done about a call that begins; k: its probe, or NULL where its return can't be left out. */
static __always_inline enum relay relay_enter(struct pt_regs *ctx, struct known_probe *k, u64 cookie)
{
	u64 alignment;

	if (!k || COOKIE_SHAPE(cookie) != SHAPE_MALLOC || !COOKIE_ALIGNMENT(cookie))
		return RELAY_NONE;
	alignment = reg_value(ctx, COOKIE_ALIGNMENT(cookie));
	if (!alignment || alignment > MALLOC_ALIGNMENT || alignment & (alignment - 1))
		return RELAY_NONE;
	if (k->relayed >= CHECK_FIRST && ++k->relayed % CHECK_EVERY)
		return RELAY_PASSED;
	return RELAY_CHECKED;
}

/* A call begins inside the one in progress. At the same stack pointer, it is going to return to the other's caller. */
static __always_inline void relay_nested(struct thread *t, struct pt_regs *ctx)
{
	if (t->relay == RELAY_CHECKED && t->hidden == 1 && REG_SP(ctx) == t->sp)
		t->relay = RELAY_SEEN;
}

/* The call in progress has returned. */
static __always_inline void relay_check(struct thread *t)
{
	struct known_probe *k = t->relay ? known_probe(t, t->outer) : NULL;

	if (!k)
		return;
	if (t->relay == RELAY_SEEN) {
		if (k->relayed < CHECK_FIRST)
			k->relayed++;
		return;
	}
	if (k->relayed > CHECK_FIRST)
		count_loss(LOSS_MISPREDICTED);
	k->relayed = 0;
}

#endif
