/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pools: blocks that end together, without being named. A pool has an address,
 * which an allocation from it carries; what becomes of it is an event of its
 * own, and whoever knows the blocks knows which have ended.
 */
#ifndef MEMTRACE_POOL_H
#define MEMTRACE_POOL_H

#include "emit.h"
#include "regs.h"
#include "sample.h"

static __always_inline bool is_pooled(u32 shape)
{
	return shape == SHAPE_POOL_ALLOC || shape == SHAPE_POOL_CURRENT;
}

/* The pool that a function allocates from which takes none, as the program has a current one. */
static __always_inline u64 pool_of_variable(struct pt_regs *ctx, u64 cookie)
{
	u32 key = COOKIE_VARIABLE(cookie);
	s64 *distance = bpf_map_lookup_elem(&pool_variables, &key);
	u64 pool;

	if (!distance || bpf_probe_read_user(&pool, sizeof(pool), (void *)(REG_IP(ctx) + *distance))) {
		count_loss(LOSS_READ_FAULT);
		return 0;
	}
	return pool;
}

/*
 * Flags of a free: within a function that ends a pool it is of the pool's own
 * memory, unless the block is known. That function may call the program back,
 * which may allocate and free, so it hides nothing. If its return is missed
 * (longjmp), frees that match nothing are taken for the pool's until the stack
 * is as short as it was.
 */
static __always_inline u32 is_ending(struct pt_regs *ctx, struct thread *t)
{
	return t->ending && REG_SP(ctx) < t->ending ? RECORD_NESTED : 0;
}

/* What a function does to a pool. */
static __always_inline void emit_change(struct self self, struct pt_regs *ctx, u64 cookie)
{
	struct place p;

	if (!reserve(self, &p))
		return;
	fill_head(self, &p.record->alloc.head, reg_value(ctx, COOKIE_REG(cookie, 0)));
	p.record->alloc.size = reg_value(ctx, COOKIE_REG(cookie, 1));
	p.record->alloc.stack = 0;
	commit(self, &p, COOKIE_CHANGE(cookie), RECORD_POOL_CHANGE, 0);
}

/* The blocks of a chain that is being released. */
struct chain {
	u64 next;
	u64 distance; /* of the next one's address, from the block's beginning */
};

#define CHAIN_STEPS (1 << 23) /* that bpf_loop takes at most */
#define FEW_CHAIN_STEPS 32    /* where there is none */

/* The next block of a chain; 0: it ends. */
static __always_inline u64 next_in_chain(struct chain *c)
{
	u64 block = c->next;

	if (block && bpf_probe_read_user(&c->next, sizeof(c->next), (void *)(block + c->distance))) {
		count_loss(LOSS_READ_FAULT);
		c->next = 0;
	}
	return block;
}

static __always_inline bool is_chain(u64 cookie)
{
	return COOKIE_CHANGE(cookie) == POOL_CHAIN;
}

/* The entry of a function that changes a pool, or releases a chain; whether its return is of interest. */
static __always_inline bool change_enter(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie)
{
	u32 change = COOKIE_CHANGE(cookie);

	if (can_sample)
		count_hit(self, HIT_RETURN, 1);
	if (!is_chain(cookie))
		emit_change(self, ctx, cookie);
	if (change == POOL_MOVED || change == POOL_NAMED || is_ending(ctx, t))
		return false;
	t->ending = REG_SP(ctx);
	return true;
}

#endif
