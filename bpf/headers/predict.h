/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an allocation is about to return, where that can be told at its entry.
 *
 * Two of the three traps that a block costs are malloc's own, and the one at its
 * return is there for the result alone. But allocators keep lists of free
 * blocks by size for each thread and hand out the first one of a list wherever
 * there is one. Nobody else takes from it: so the result can be
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

/* tracer/probe.CacheLayout */
enum cache_layout {
	CACHE_NONE,
	CACHE_COUNTED,   /* glibc up to 2.41: a list is empty where its count is 0 */
	CACHE_UNCOUNTED, /* from 2.42 on: where its head is */
	CACHE_LISTS,     /* tcmalloc */
	CACHE_STACKS,    /* jemalloc */
	CACHE_PAGES,     /* mimalloc */
};

#define TCACHE_LISTS 64 /* from glibc 2.42 on there are lists of larger blocks beyond them, which are searched */
#define CHECK_FIRST 32
#define CHECK_EVERY 256 /* a power of two */

#if defined(__TARGET_ARCH_x86)

/* Whether the thread's predictor tells the results of another function, too. */
static __always_inline bool is_same(struct predictor *p, struct thread_cache *c, u64 offset, u64 table)
{
	return p->number && p->offset == offset && p->table == table && p->first == c->first && p->limit == c->limit &&
	       p->stride == c->stride && p->head == c->head && p->budget == c->budget && p->layout == c->layout;
}

/* The calling thread has come to a probe for the first time. */
static __always_inline void predict_learn(struct self self, struct pt_regs *ctx, struct thread *t, struct known_probe *k)
{
	u32 shape = COOKIE_SHAPE(k->cookie), key = shape == SHAPE_MALLOC || shape == SHAPE_CALLOC ? COOKIE_VARIABLE(k->cookie) : 0;
	struct thread_cache *c = key ? bpf_map_lookup_elem(&thread_caches, &key) : NULL;
	struct predictor *p = &t->predictor;
	u64 offset = 0, table;

	/* tracer/pending.go looks at slots alone: no predictions for a thread that has none. */
	if (!c || !t->owner || p->is_off || !bpf_core_field_exists(self.task->thread.fsbase))
		return;
	if (c->slot && bpf_probe_read_user(&offset, sizeof(offset), (void *)(REG_IP(ctx) + c->slot)))
		return;
	offset += c->fixed;
	table = c->table ? REG_IP(ctx) + c->table : 0;
	if (!is_same(p, c, offset, table)) {
		p->offset = offset;
		p->table = table;
		p->first = c->first;
		p->limit = c->limit;
		p->stride = c->stride;
		p->head = c->head;
		p->budget = c->budget;
		p->layout = c->layout;
		p->cache = 0;
		p->count = 0;
		p->number++;
	}
	k->predictor = p->number;
}

/* Where the next block lies, and a word that says so until it is taken. */
struct next_block {
	u64 at;
	u64 word;
};

/* The list that glibc takes a block of size bytes from (csize2tidx); TCACHE_LISTS or more: none. */
static __always_inline u64 tcache_list(u64 size)
{
	if (size <= 24)
		return 0;
	return size < 1 << 16 ? ((size + 23) >> 4) - 2 : TCACHE_LISTS;
}

/*
 * A count and its list's head lie so far from each other. One read of all that is in
 * between costs less than two.
 */
#define NEAR_LISTS 32
#define COUNTED_ENTRIES 128 /* where the heads lie wherever there are counts */
#define NEAR_WORDS ((COUNTED_ENTRIES + 6 * (NEAR_LISTS - 1)) / 8 + 2)

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

/* What lies at an address; 0 where nothing can be read. */
static __always_inline u64 word_at(u64 at)
{
	u64 word;

	return bpf_probe_read_user(&word, sizeof(word), (void *)at) ? 0 : word;
}

static __always_inline u64 tcache_head(struct predictor *p, u64 size, struct next_block *next)
{
	u64 list = tcache_list(size);

	next->at = p->cache + p->first + list * 8;
	if (list >= TCACHE_LISTS)
		return 0;
	return next->word = p->layout == CACHE_COUNTED ? counted_head(p->cache, list) : word_at(next->at);
}

/* No allocator's blocks are that much larger than what was asked for. */
#define MOST_USED(size) ((size) * 2 + 64)

/*
 * jemalloc's cache_bin_t, and what lies in front of the first one: how many
 * bytes the thread has allocated, and at how many another function takes over, as when
 * it samples.
 */
#define BUDGET_WORDS 5 /* from there to the first stack */
#define STACK_WORDS 3
#define NEAR_STACKS 11
#define STACKS_WORDS (BUDGET_WORDS + STACK_WORDS * NEAR_STACKS)
#define IS_EMPTY(stack) ((u16)(stack)[0] == (u16)((stack)[2] >> 32))

/* Where a stack of free blocks is, if there are any; 0: unknown. */
__attribute__((noinline)) u64 stack_top(u64 stacks, u64 class, u64 size)
{
	u64 words[STACKS_WORDS], *stack = words + BUDGET_WORDS, used = MOST_USED(size);
	bool is_near = class < NEAR_STACKS;

	if (bpf_probe_read_user(words, is_near ? sizeof(words) : BUDGET_WORDS * 8, (void *)(stacks - BUDGET_WORDS * 8)))
		return 0;
	if (words[0] + used >= words[1])
		return 0;
	if (is_near)
		stack += class * STACK_WORDS;
	else if (bpf_probe_read_user(stack, STACK_WORDS * 8, (void *)(stacks + class * STACK_WORDS * 8)))
		return 0;
	return IS_EMPTY(stack) ? 0 : stack[0];
}

/* The head of a list of another allocator's. */
static __always_inline u64 other_head(struct predictor *p, u64 size, struct next_block *next)
{
	u64 unit = (size + 7) >> 3, lists = p->cache + p->first;
	u8 class = 0;

	if (size > p->limit || (p->table && bpf_probe_read_user(&class, sizeof(class), (void *)(p->table + unit))))
		return 0;
	switch (p->layout) {
	case CACHE_LISTS:
		if (p->budget && (s64)word_at(p->cache + p->budget) < (s64)MOST_USED(size))
			return 0;
		next->at = lists + class * p->stride;
		return next->word = word_at(next->at);
	case CACHE_STACKS:
		next->at = lists + class * STACK_WORDS * 8;
		next->word = stack_top(lists, class, size);
		return next->word ? word_at(next->word) : 0;
	case CACHE_PAGES:
		next->at = word_at(lists + unit * 8) + p->head;
		return next->word = word_at(next->at);
	}
	return 0;
}

/* The block of size bytes that is handed out next; 0: unknown. */
static __always_inline u64 predict(struct predictor *p, u64 size, struct next_block *next)
{
	u64 head = p->layout <= CACHE_UNCOUNTED ? tcache_head(p, size, next) : other_head(p, size, next);

	return head & 7 ? 0 : head; /* such a one ends the program */
}

/*
 * Find the thread's cache. glibc's is asked for again at each check only, or where the
 * program has given the thread other variables: a thread gives up its cache at its
 * end alone, and allocates nothing more then. With the others it may.
 */
static __always_inline bool find_cache(struct self self, struct predictor *p, bool check)
{
	u64 base = self.task->thread.fsbase;

	if (p->layout == CACHE_STACKS) { /* in the variable itself */
		p->cache = base + p->offset;
		return true;
	}
	if (p->layout <= CACHE_UNCOUNTED && !check && p->cache && p->base == base)
		return true;
	p->base = base;
	p->cache = word_at(base + p->offset);
	return p->cache;
}

/* Whether the call that begins now needs no return: its result is in t->predicted, its caller in t->from. */
static __always_inline bool is_predicted(struct self self, struct pt_regs *ctx, struct thread *t, struct known_probe *k)
{
	struct predictor *p = &t->predictor;
	bool check = p->count < CHECK_FIRST || p->count % CHECK_EVERY == 0;
	struct next_block next = {};
	u64 predicted;

	if (!k->predictor || k->predictor != p->number || p->is_off || !find_cache(self, p, check))
		return false;
	predicted = predict(p, t->size, &next);
	FORGET(predicted, REG_SP(ctx));
	FORGET(next.at, REG_SP(ctx));
	t->predicted = predicted;
	if (!predicted)
		return false;
	p->count++;
	if (check)
		return false;
	t->from = (struct cursor){ .sp = REG_SP(ctx), .fp = REG_FP(ctx) };
	t->pending = t->predicted;
	t->pending_at = next.at;
	t->pending_word = next.word;
	return true;
}

/* A call whose result was predicted has returned. Calls inside it would be taken for the program's if its return were left out. */
static __always_inline void check_prediction(struct thread *t, u64 result)
{
	if (result == t->predicted && !t->hidden)
		return;
	t->predictor.is_off = true;
	if (t->predictor.count > CHECK_FIRST)
		count_loss(LOSS_MISPREDICTED);
}

#else /* the thread's pointer is in a register that no program can read */

static __always_inline void predict_learn(struct self self, struct pt_regs *ctx, struct thread *t, struct known_probe *k)
{
}

static __always_inline bool is_predicted(struct self self, struct pt_regs *ctx, struct thread *t, struct known_probe *k)
{
	return false;
}

static __always_inline void check_prediction(struct thread *t, u64 result)
{
}

#endif
#endif
