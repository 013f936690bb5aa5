/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What malloc is about to return, where that can be told at its entry.
 *
 * Two of the three traps that a block costs are malloc's own, and the one at its
 * return is there for the result alone. But glibc keeps lists of free
 * blocks by size for each thread (tcache, malloc/malloc.c) and hands out the first one
 * of a list wherever there is one. Nobody else takes from it: so the result can be
 * read before the call, and its return left out.
 *
 * Predictions are checked: the first ones of each thread, then one of so many, let the
 * return trap, too. One that was wrong ends them.
 *
 * Until the call has taken it, the block is recorded and yet stands in the list alone:
 * a thread that is stopped at its trap, as most are in a program that does little else,
 * has no pointer to it. So the thread's state says which block that may be.
 */
#ifndef MEMTRACE_PREDICT_H
#define MEMTRACE_PREDICT_H

#include "thread.h"
#include <bpf/bpf_core_read.h>

#define TCACHE_LISTS 64 /* from glibc 2.42 on there are lists of larger blocks beyond them, which are searched */
#define CHECK_FIRST 32
#define CHECK_EVERY 256 /* a power of two */

#if defined(__TARGET_ARCH_x86)

/* The calling thread has come to a probe for the first time. */
static __always_inline void predict_learn(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie)
{
	u32 key = COOKIE_SHAPE(cookie) == SHAPE_MALLOC ? COOKIE_VARIABLE(cookie) : 0;
	struct thread_cache *c = key ? bpf_map_lookup_elem(&thread_caches, &key) : NULL;
	struct predictor *p = &t->predictor;

	if (p->ip == REG_IP(ctx)) /* the probe alone was forgotten */
		return;
	/* tracer/pending.go looks at slots alone: no predictions for a thread that has none. */
	if (!c || !t->owner || !bpf_core_field_exists(self.task->thread.fsbase) ||
	    bpf_probe_read_user(&p->offset, sizeof(p->offset), (void *)(REG_IP(ctx) + c->slot)))
		return;
	p->ip = REG_IP(ctx);
	p->base = self.task->thread.fsbase;
	p->cache = 0;
	p->entries = c->entries;
	p->counted = c->counted;
	p->count = 0;
}

/* The list that glibc takes a block of size bytes from (csize2tidx); TCACHE_LISTS or more: none. */
static __always_inline u64 tcache_list(u64 size)
{
	if (size <= 24)
		return 0;
	return size < 1 << 16 ? ((size + 23) >> 4) - 2 : TCACHE_LISTS;
}

/*
 * A count and its list's head lie so far from each other. One read of all that is in
 * between costs less than two: 328 bytes take no longer than the call.
 */
#define NEAR_LISTS 32
#define NEAR_WORDS ((COUNTED_ENTRIES + 6 * (NEAR_LISTS - 1)) / 8 + 2)
#define COUNTED_ENTRIES 128 /* where the heads lie wherever there are counts */

/* The head of a list whose count is not 0; 0: unknown. A function of its own for its stack. */
__attribute__((noinline)) u64 counted_head(u64 cache, u64 list)
{
	u64 words[NEAR_WORDS], at = cache + list * 2, head;
	u16 count;

	if (list < NEAR_LISTS) {
		if (bpf_probe_read_user(words, sizeof(words), (void *)at))
			return 0;
		__builtin_memcpy(&head, (void *)words + COUNTED_ENTRIES + list * 6, sizeof(head));
		return (u16)words[0] ? head : 0;
	}
	if (bpf_probe_read_user(&count, sizeof(count), (void *)at) || !count)
		return 0;
	return bpf_probe_read_user(&head, sizeof(head), (void *)(cache + COUNTED_ENTRIES + list * 8)) ? 0 : head;
}

/* Where the head of a list is. */
static __always_inline u64 head_place(struct predictor *p, u64 list)
{
	return p->cache + p->entries + list * 8;
}

/* The block that the malloc of size bytes that begins now returns; 0: unknown. */
static __always_inline u64 predict(struct predictor *p, u64 size)
{
	u64 list = tcache_list(size), head;

	if (list >= TCACHE_LISTS || !p->cache)
		return 0;
	if (p->counted)
		head = counted_head(p->cache, list);
	else if (bpf_probe_read_user(&head, sizeof(head), (void *)head_place(p, list)))
		return 0;
	return head & 15 ? 0 : head; /* such a one ends the program */
}

/*
 * Find the thread's cache. It is asked for again at each check only, or where the
 * program has given the thread other variables: a thread gives up its cache at its
 * end alone, and allocates nothing more then.
 */
static __always_inline bool find_cache(struct self self, struct predictor *p, bool check)
{
	u64 base = self.task->thread.fsbase;

	if (!check && p->cache && p->base == base)
		return true;
	p->base = base;
	return bpf_probe_read_user(&p->cache, sizeof(p->cache), (void *)(base + p->offset)) == 0;
}

/* Whether the call that begins now needs no return: its result is in t->predicted, its caller in t->from. */
static __always_inline bool is_predicted(struct self self, struct pt_regs *ctx, struct thread *t)
{
	struct predictor *p = &t->predictor;
	bool check = p->count < CHECK_FIRST || p->count % CHECK_EVERY == 0;

	if (p->ip != REG_IP(ctx) || !find_cache(self, p, check))
		return false;
	t->predicted = predict(p, t->size);
	if (!t->predicted)
		return false;
	p->count++;
	if (check)
		return false;
	t->from = (struct cursor){ .sp = REG_SP(ctx), .fp = REG_FP(ctx) };
	t->pending = t->predicted;
	t->pending_at = head_place(p, tcache_list(t->size));
	return true;
}

/* A call whose result was predicted has returned. Calls inside it would be taken for the program's if its return were left out. */
static __always_inline void check_prediction(struct thread *t, u64 result)
{
	if (result == t->predicted && !t->hidden)
		return;
	t->predictor.ip = 0;
	if (t->predictor.count > CHECK_FIRST)
		count_loss(LOSS_MISPREDICTED);
}

#else /* the thread's pointer is in a register that no program can read */

static __always_inline void predict_learn(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie)
{
}

static __always_inline bool is_predicted(struct self self, struct pt_regs *ctx, struct thread *t)
{
	return false;
}

static __always_inline void check_prediction(struct thread *t, u64 result)
{
}

#endif
#endif
