/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which blocks are recorded, where not all are; docs/sampling.md.
 *
 * Every byte that a thread asks for is hit with the same small probability,
 * and a block is recorded if one of its bytes is: as long as the distance to
 * the next hit, drawn anew at each, is distributed exponentially, a block of s
 * bytes is recorded with probability 1 - exp(-s / interval), whatever came
 * before. So user space knows what each recorded block stands for.
 */
#ifndef MEMTRACE_SAMPLE_H
#define MEMTRACE_SAMPLE_H

#include "pressure.h"
#include "thread.h"

/* splitmix64's finaliser: every bit of the result depends on every bit of h. */
static __always_inline u64 mix(u64 h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

#define LN2_24 11629080ULL /* ln 2 with 24 bits after the point */

/*
 * The bytes up to and with the next hit, from a random number other than 0:
 * floor(interval × -ln(random / 2^64)) + 1. The logarithm is interpolated between
 * the table's 1,024 steps, which errs by less than 2e-7.
 */
__attribute__((noinline)) u64 draw(u64 random, u32 interval)
{
	u64 m = random, bits = 0, low, high, e;
	u32 i;

	for (u32 step = 32; step; step >>= 1) {
		if (!(m >> (64 - step))) {
			m <<= step;
			bits += step;
		}
	}
	m <<= 1; /* the leading one */
	i = m >> 54;
	if (i >= LOG2_STEPS)
		return 1;
	low = log2_table[i];
	high = log2_table[i + 1];
	e = ((bits + 1) << 32) - (low + ((high - low) * (m >> 22 & 0xffffffff) >> 32));
	e = e * LN2_24 >> 24;
	return (e >> 32) * interval + ((e & 0xffffffff) * interval >> 32) + 1;
}

static __always_inline u64 next_random(struct thread *t)
{
	u64 random;

	if (!t->random)
		t->random = sample_seed ? sample_seed : (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	t->random += 0x9e3779b97f4a7c15ULL;
	random = mix(t->random);
	return random ? random : 1;
}

/* The mean distance between hits, in bytes; 0: every block is recorded. */
static __always_inline u32 sample_interval(void)
{
	u32 key = SAMPLING_INTERVAL, *interval = bpf_map_lookup_elem(&sampling, &key), pressed = STATE_INTERVAL(pressure()), set;

	set = interval ? *(volatile u32 *)interval : 0;
	return set > pressed ? set : pressed;
}

/* Whether the block of a call is to be recorded. */
static __always_inline bool is_hit(struct thread *t, u64 size, u32 interval)
{
	if (!interval)
		return true;
	if (!size)
		size = 1; /* such a block counts, too */
	if (t->interval != interval) {
		t->interval = interval;
		t->countdown = draw(next_random(t), interval);
	}
	if (size < t->countdown) {
		t->countdown -= size;
		return false;
	}
	t->countdown = draw(next_random(t), interval);
	return true;
}

/*
 * The recorded blocks that live, by a hash of their address: the low byte of a
 * slot says how many have its hash, the rest is the address of the one, where
 * that is known. One that is not there was not recorded, and its free is of no
 * interest. Where there are several, all frees with their hash are reported, and
 * user space, which knows the blocks, counts down. No free of a recorded
 * block is ever held back. Processes share the slots: a forked child frees its
 * copies of its parent's blocks.
 */
#define SLOT_COUNT(slot) ((slot) & 255)
#define SLOT_OF(addr, count) ((addr) << 8 | (count))

static __always_inline u64 *filter_slot(u64 addr)
{
	u32 key = addr * 0x9fb21c651e98df25ULL >> (64 - FILTER_BITS);

	return bpf_map_lookup_elem(&filter, &key);
}

/* Whether a slot says that the block at addr was not recorded. */
static __always_inline bool rules_out(u64 slot, u64 addr)
{
	return !slot || (SLOT_COUNT(slot) == 1 && slot >> 8 && slot >> 8 != addr);
}

static __always_inline bool may_be_recorded(u64 addr)
{
	u64 *slot = filter_slot(addr);

	return !slot || !rules_out(*(volatile u64 *)slot, addr);
}

static __always_inline void record_block(u64 addr)
{
	u64 *slot = filter_slot(addr), was;

	if (!slot)
		return;
	for (int i = 0; has_atomics && i < 4; i++) {
		was = *(volatile u64 *)slot;
		if (was)
			break;
		if (!__sync_val_compare_and_swap(slot, 0, SLOT_OF(addr, 1)))
			return;
	}
	if (SLOT_COUNT(*(volatile u64 *)slot) < 255) /* such a slot lets everything pass for good */
		__sync_fetch_and_add(slot, 1);
}

/* A process has forked: a block may be two, of which one ends. */
bool has_forked;

/*
 * The block at addr has ended. True: it was recorded and its slot has been cleared; else that is for user space,
 * which knows of copies once it has come to the fork.
 */
static __always_inline bool release_block(u64 addr)
{
	u64 *slot = filter_slot(addr), was = SLOT_OF(addr, 1);

	return has_atomics && !*(volatile bool *)&has_forked && slot && *(volatile u64 *)slot == was && __sync_val_compare_and_swap(slot, was, 0) == was;
}

/* Programs may be preempted in between: a count may be lost, none is wrong by much. */
static __always_inline void count_hit(struct self self, u32 kind, u64 n)
{
	u32 key = self.cpu * HIT_KINDS + kind;
	u64 *count = bpf_map_lookup_elem(&hits, &key);

	if (count)
		*(volatile u64 *)count += n;
}

/* Take the time of one call of so many. */
#define TIME_EVERY 64

/* What a call's return is to record. */
static __always_inline u32 choose(struct thread *t)
{
	u32 interval, keep;

	t->taken = 0;
	if (t->shape == SHAPE_MMAP || t->shape == SHAPE_RELEASE || t->shape >= SHAPE_POOL_BEGIN)
		return KEEP_NEW;
	interval = sample_interval();
	keep = t->shape == SHAPE_RESIZE || is_hit(t, t->size, interval) ? KEEP_NEW : 0;
	t->taken = interval;
	if (t->shape == SHAPE_REALLOC || t->shape == SHAPE_REALLOCARRAY || t->shape == SHAPE_RESIZE) {
		if (t->old && (!interval || may_be_recorded(t->old)))
			keep |= KEEP_OLD;
		if (t->old && t->old == t->latest)
			keep |= KEEP_TEMPORARY;
	}
	t->latest = 0;
	return keep;
}

/* A call that says afterwards how large its block is. */
static __always_inline void choose_resized(struct thread *t)
{
	if (!is_hit(t, t->size, t->taken))
		t->keep &= ~KEEP_NEW;
}

/* After so many calls of a function with no other one inside, its return may be left out. */
#define CLEAN_CALLS 64

/*
 * Whether nobody will miss the return of a call that is not recorded. A call
 * whose return is left out hides no others, and what it would have hidden would
 * be taken for the program's: so only where a thread's calls have hidden
 * nothing for a while. realloc and memalign turn to malloc for some arguments.
 */
static __always_inline bool may_skip(struct thread *t, struct known_probe *k)
{
	if (t->shape != SHAPE_MALLOC && t->shape != SHAPE_CALLOC)
		return false;
	if (k->clean >= CLEAN_CALLS)
		return true;
	k->clean++;
	return false;
}

/* A call inside the one in progress: its function's returns are needed. */
static __always_inline void mark_nesting(struct thread *t)
{
	struct known_probe *k = known_probe(t, t->outer);

	if (k)
		k->clean = 0;
}

/* Whether a free is of interest; its interval goes into the record. */
static __always_inline bool is_wanted(u64 addr, u32 *interval)
{
	*interval = sample_interval();
	return !*interval || may_be_recorded(addr);
}

#endif
