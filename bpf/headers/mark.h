/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * USDT probes of allocators: one hit tells of the block and its size, at an
 * instruction that does nothing. Where the arguments are stands in the file's
 * notes, from which the tracer has filled the map marks.
 */
#ifndef MEMTRACE_MARK_H
#define MEMTRACE_MARK_H

#include "block.h"
#include "pool.h"
#include "stack.h"

/* A register, by its place in pt_regs: which one differs from probe to probe, and so can't be a constant. */
static __always_inline u64 mark_register(struct pt_regs *ctx, u16 place)
{
	u64 value = 0;

	if (place <= sizeof(struct pt_regs) - sizeof(value))
		bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + place);
	return value;
}

/* An argument as its size and sign have it. */
static __always_inline u64 mark_extend(struct mark_arg *a, u64 value)
{
	u32 unused = (64 - a->size * 8) & 63;

	value <<= unused;
	return a->is_signed ? (u64)((s64)value >> unused) : value >> unused;
}

/* The value of an argument; false where its memory can't be read, which is counted. */
static __always_inline bool mark_value(struct pt_regs *ctx, struct mark_arg *a, u64 *value)
{
	u64 at = a->value, found = 0;
	u32 size = a->size;

	switch (a->kind) {
	case MARK_REGISTER:
		found = mark_register(ctx, a->base);
		break;
	case MARK_MEMORY:
	case MARK_RELATIVE:
		at += a->kind == MARK_RELATIVE ? REG_IP(ctx) : mark_register(ctx, a->base);
		if (a->index_by)
			at += mark_register(ctx, a->index) << ((a->index_by - 1) & 3);
		if (size > sizeof(found) || bpf_probe_read_user(&found, size, (void *)at)) {
			count_loss(LOSS_READ_FAULT);
			return false;
		}
		break;
	default:
		found = a->value;
	}
	*value = mark_extend(a, found);
	return true;
}

/* Whether a block that its program tells of is to be recorded. One with a weight is in the program's own sample. */
static __always_inline bool choose_marked(struct self self, struct thread *t, u64 addr, bool weighted)
{
	t->taken = 0;
	if (weighted)
		return true;
	if (can_sample) {
		t->taken = sample_interval();
		return is_hit(t, t->size, t->taken);
	}
	if (choose_returned(self, t, RECORD_ALLOC, addr) == TAKE)
		return true;
	count_loss(LEFT_OUT_ALLOC);
	return false;
}

/* A block that the program says it has handed out. No call is in progress: its fields are free. */
static __always_inline void mark_alloc(struct self self, struct pt_regs *ctx, struct thread *t, u64 addr, u64 size, u64 weight)
{
	u64 stack;

	t->size = size;
	t->old = weight;
	t->began = 0;
	t->forward_sp = 0;
	t->free_sp = 0;
	if (can_sample) {
		count_hit(self, HIT_ENTRY, 1);
		t->latest = 0;
	}
	if (!choose_marked(self, t, addr, weight))
		return;
	if (can_sample) {
		record_block(addr);
		t->latest = addr;
	}
	t->from = (struct cursor){ .pc = REG_IP(ctx) + 1, .sp = REG_SP(ctx), .fp = REG_FP(ctx), .lr = REG_LINK(ctx) };
	stack = take_stack(self, ctx, t);
	if (weight)
		emit_realloc(self, t, RECORD_ALLOC, addr, stack, RECORD_WEIGHTED);
	else
		emit_sized(self, RECORD_ALLOC, addr, size, stack, t->taken, 0);
}

/* Within a call that is traced: a part of it, or a block that the program gives to a releasing function. */
static __always_inline void mark_nested(struct self self, struct thread *t, u64 cookie, u64 addr)
{
	if (t->shape == SHAPE_RELEASE && COOKIE_SHAPE(cookie) == SHAPE_MARK_FREE)
		free_block(self, t, addr, RECORD_NESTED);
	else
		t->hidden++;
	if (can_sample)
		mark_nesting(t);
}

static __always_inline int at_mark(struct pt_regs *ctx)
{
	struct self self = get_self();
	u64 cookie, addr, size, weight = 0;
	struct thread *t;
	struct mark *m;
	u32 key;

	keep_own_stack();
	t = thread_at_probe(self, ctx, &cookie);
	if (!t)
		return 0;
	key = COOKIE_MARK(cookie);
	m = bpf_map_lookup_elem(&marks, &key);
	if (!m || !mark_value(ctx, &m->args[0], &addr) || !addr)
		return 0;
	if (is_nested(t, ctx)) {
		mark_nested(self, t, cookie, addr);
		return 0;
	}
	if (COOKIE_SHAPE(cookie) == SHAPE_MARK_FREE)
		free_block(self, t, addr, is_ending(ctx, t));
	else if (mark_value(ctx, &m->args[1], &size) && mark_value(ctx, &m->args[2], &weight))
		mark_alloc(self, ctx, t, addr, size, weight);
	return 0;
}

#endif
