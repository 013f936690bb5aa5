/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which blocks are left out under pressure by a tracer that otherwise records
 * every one.
 *
 * It keeps no list of the blocks that it recorded, which would cost every call.
 * What it keeps, while there is pressure, is the blocks that it left out: their
 * frees are left out as well, and all others are recorded. The list is a table
 * that may forget: the free of a block that it forgot is recorded for
 * nothing. So no free of a recorded block is ever held back. All calls
 * that are left out are counted.
 */
#ifndef MEMTRACE_LEAVE_H
#define MEMTRACE_LEAVE_H

#include "pressure.h"
#include "sample.h"

/*
 * A word of the table names one block of one process in one phase: with its
 * index, which has 20 bits of the address, it has all of an address of 57 bits
 * and of the process's ID, of 22 at most (include/linux/threads.h), and 5
 * bits of the phase's number. So what a program that was preempted for
 * long adds after its phase means nothing in the next; the tracer clears the
 * table between phases.
 */
static __always_inline u64 left_word(struct self self, u64 addr, u64 state)
{
	return addr >> 24 << 31 | (addr & 15) << 27 | (STATE_PHASE(state) & 31) << 22 | (self.tgid & 0x3fffff);
}

static __always_inline u64 *left_slot(u64 addr, u64 word)
{
	u32 key = (addr >> 4 ^ word * 0x9fb21c651e98df25ULL >> 32) & ((1 << LEFT_BITS) - 1);

	return bpf_map_lookup_elem(&left, &key);
}

/* The block at addr has not been recorded. */
static __always_inline void leave_block(struct self self, u64 addr, u64 state)
{
	u64 word = left_word(self, addr, state), *slot = left_slot(addr, word);

	if (slot)
		*(volatile u64 *)slot = word;
}

/* Whether the block at addr is known to be left out; it is not any more. */
static __always_inline bool take_back(struct self self, u64 addr, u64 state)
{
	u64 word = left_word(self, addr, state), *slot = left_slot(addr, word);

	if (!slot || *(volatile u64 *)slot != word)
		return false;
	*(volatile u64 *)slot = 0;
	return true;
}

/*
 * A realloc begins: whether its old block was left out is to be known before it runs. As it returns, another
 * thread may have got that address, and its block may have been left out.
 */
static __always_inline void choose_old(struct self self, struct thread *t)
{
	u64 state = pressure();

	t->left = STATE_INTERVAL(state) && t->old && take_back(self, t->old, state);
}

enum choice {
	TAKE,     /* record the call */
	LEAVE,    /* nothing of it */
	TAKE_OLD, /* of a realloc: that its old block has ended */
};

/* A call that allocated or reallocated, under pressure. */
static __always_inline enum choice choose_pressed(struct self self, struct thread *t, u32 kind, u64 addr, u64 state)
{
	bool hit = is_hit(t, t->size, STATE_INTERVAL(state));
	bool old = kind == RECORD_REALLOC && t->old && !t->left;

	t->taken = STATE_INTERVAL(state);
	if (hit) {
		/* Another thread may have got a realloc's old address before the realloc returned. */
		if (addr)
			take_back(self, addr, state);
		t->latest = addr;
		return TAKE;
	}
	if (addr)
		leave_block(self, addr, state);
	return old ? TAKE_OLD : LEAVE;
}

/*
 * What is to be recorded of a call that has returned. Its interval and flags are
 * kept in memory, where the verifier doesn't tell their values apart.
 */
static __always_inline enum choice choose_returned(struct self self, struct thread *t, u32 kind, u64 addr)
{
	u64 state = pressure();

	t->taken = 0;
	t->keep = 0;
	if (kind == RECORD_REALLOC_FAILED && t->left && STATE_INTERVAL(state))
		leave_block(self, t->old, state); /* it lives on */
	if (!state || (kind != RECORD_ALLOC && kind != RECORD_REALLOC))
		return TAKE;
	if (kind == RECORD_REALLOC && t->old && t->old == t->latest)
		t->keep = KEEP_TEMPORARY;
	t->latest = 0;
	if (STATE_INTERVAL(state))
		return choose_pressed(self, t, kind, addr, state);
	t->latest = addr;
	return TAKE;
}

/*
 * Whether a free is to be recorded; after the first pressure, with the
 * interval then, as it may be of a block that was left out.
 */
static __always_inline bool is_taken(struct self self, struct thread *t, u64 addr, u32 *interval, u32 *flags)
{
	u64 state = pressure();

	if (!state)
		return true;
	if (STATE_INTERVAL(state) && take_back(self, addr, state)) {
		count_loss(LEFT_OUT_FREE);
		return false;
	}
	*interval = press_interval;
	if (t->latest == addr) {
		*flags |= RECORD_TEMPORARY;
		t->latest = 0;
	}
	return true;
}

#endif
