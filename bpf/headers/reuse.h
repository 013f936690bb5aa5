/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Outer frames that are still where the last walk on this CPU found them.
 *
 * From one allocation to the next a thread's outer frames mostly stay. Where a
 * walk comes to a frame with the address, stack pointer and frame pointer of one
 * in the memo, what lies outwards is the same if the words that led there
 * are: return addresses and saved frame pointers. To compare them costs a
 * fraction of finding the rules again, and is as exact, since a common step
 * depends on nothing else; other steps are never remembered.
 *
 * A stack's hash is the sum of FRAME_HASH(pc) * HASH_STEP^i, i counting from the
 * innermost frame, so that the part of the outer frames can be taken over.
 * Frames of the memo lie in f[first, end). The outer ones stay at their
 * places when inner ones come and go.
 */
#ifndef MEMTRACE_REUSE_H
#define MEMTRACE_REUSE_H

#include "thread.h"
#include "unwind_step.h"
#include "window.h"

#define MEMO_FRAMES 256
#define MEMO_ORIGIN 128 /* where a whole walk puts its innermost frame */
#define FRESH_FRAMES 16 /* inner frames that may differ */
#define NOT_SAVED 0xffff

struct memo_frame {
	u64 pc;
	u64 sp;
	u64 fp;
	u64 inner;   /* the sum of the frames inside of it, the one at MEMO_ORIGIN having the power 0 */
	u16 ret;     /* where its return address is, in words from sp */
	u16 saved;   /* and the caller's frame pointer; or NOT_SAVED */
	u32 pad;
};

struct memo {
	u64 space;   /* whose rules led from frame to frame */
	u64 sum;     /* of all frames */
	u32 first, end; /* none: equal */
	/* Of a walk in progress; here, as the verifier would tell their values apart. */
	u32 at;
	u32 noted;
	struct memo_frame f[MEMO_FRAMES];
	struct memo_frame fresh[FRESH_FRAMES];
};

/* By places, as scratches. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, u32);
	__type(value, struct memo);
} memos SEC(".maps");

#define HASH_STEP 0x9fb21c651e98df25ULL
const volatile u64 hash_powers[MEMO_FRAMES] = {}; /* HASH_STEP^(i - MEMO_ORIGIN) */

static __always_inline u64 frame_hash(u64 pc)
{
	pc *= 0xd6e8feb86659fd93ULL;
	pc ^= pc >> 32;
	pc *= 0xd6e8feb86659fd93ULL;
	return pc ^ pc >> 32;
}

static __always_inline u64 power(u32 i)
{
	BARRIER(i);
	return hash_powers[i & (MEMO_FRAMES - 1)];
}

static __always_inline struct memo_frame *memo_at(struct memo *m, u32 i)
{
	BARRIER(i);
	return &m->f[i & (MEMO_FRAMES - 1)];
}

/* Note a frame and the common step from it; false where the step can't be noted. */
static __always_inline bool note_frame(struct memo_frame *f, u64 pc, u64 sp, u64 fp, u64 inner, u64 step, u64 cfa)
{
	u64 ret = (COMMON_RETURN(step, cfa) - sp) / 8, saved = NOT_SAVED;

	if (STEP_SAVED(step))
		saved = (cfa + STEP_SAVED(step) * 8 - sp) / 8;
	f->pc = pc;
	f->sp = sp;
	f->fp = fp;
	f->inner = inner;
	f->ret = ret;
	f->saved = saved;
	return ret < NOT_SAVED && saved <= NOT_SAVED;
}

/*
 * Whether the frames from number i on lie as they did. What the outermost one
 * returns to is not looked at: its rule says that it is the outermost.
 */
__attribute__((noinline)) int same_outwards(u32 i, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct memo *m = bpf_map_lookup_elem(&memos, &place);
	struct memo_frame *f, *next;
	u64 word;

	if (!s || !m)
		return 0;
	f = memo_at(m, i);
	for (u32 n = 0; n < MAX_FRAMES; n++) {
		if (++i >= m->end)
			return 1;
		next = memo_at(m, i);
		if (!read_word(s, place, f->sp + f->ret * 8, &word) || PLAIN_ADDRESS(word) != next->pc)
			return 0;
		if (f->saved != NOT_SAVED && (!read_word(s, place, f->sp + f->saved * 8, &word) || word != next->fp))
			return 0;
		f = next;
	}
	return 0;
}

/* Put the fresh frames in front of frame i, if there is room; from is the sum's power there. */
static __always_inline void keep_fresh(struct memo *m, u32 i, u32 fresh, u64 sum)
{
	u64 from = power(i - fresh), all = m->sum;

	if (i < fresh || i >= MEMO_FRAMES)
		return;
	for (u32 k = 0; k < FRESH_FRAMES && k < fresh; k++) {
		struct memo_frame *f = memo_at(m, i - fresh + k);

		*f = m->fresh[k];
		f->inner = all - (sum - f->inner) * from;
	}
	m->first = i - fresh;
}

/* The memo's cursor moves on from a frame that lies further in than sp. */
static __always_inline void pass_inner(struct memo *m, u64 sp)
{
	u32 at = m->at;

	if (at < m->end && memo_at(m, at)->sp < sp)
		m->at = at + 1;
}

/* The sum of a stack of so many fresh frames, whose next one is that at the memo's cursor. */
__attribute__((noinline)) u64 take_over(u32 fresh, u64 sum, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct memo *m = bpf_map_lookup_elem(&memos, &place);
	u32 at;

	if (!s || !m)
		return 0;
	at = m->at;
	if (at <= fresh || fresh + m->end - at > stack_depth || !same_outwards(at, place))
		return 0;
	sum += (m->sum - memo_at(m, at)->inner) * power(2 * MEMO_ORIGIN + fresh - at);
	if (fresh)
		keep_fresh(m, at, fresh, sum);
	s->at.sp = memo_at(m, m->end - 1)->sp;
	return sum;
}

/*
 * The sum of the stack's frames, if its outer frames are those of the last
 * walk here; 0: a whole walk is due. The cursor is then at the bottom.
 */
__attribute__((noinline)) u64 walk_again(u32 tgid, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct memo *m = bpf_map_lookup_elem(&memos, &place);
	u64 space = own_space(tgid), pc, sp, fp, sum = 0, step, cfa;
	u32 i;

	if (!s || !m || !space || m->space != space)
		return 0;
	pc = s->at.pc;
	sp = s->at.sp;
	fp = s->at.fp;
	m->at = m->first;
	for (i = 0; i < FRESH_FRAMES; i++) {
		struct memo_frame *f;

		pass_inner(m, sp);
		pass_inner(m, sp);
		pass_inner(m, sp);
		if (m->at >= m->end)
			return 0;
		f = memo_at(m, m->at);
		if (f->sp == sp && f->pc == pc && f->fp == fp)
			return take_over(i, sum, place);
		step = step_at(pc - 1, space);
		if (step == STEP_UNKNOWN || !(step & STEP_COMMON))
			return 0;
		cfa = (step & STEP_FROM_FP ? fp : sp) + STEP_CFA(step);
		if (cfa <= sp || !note_frame(&m->fresh[i], pc, sp, fp, sum, step, cfa))
			return 0;
		sum += frame_hash(pc) * power(MEMO_ORIGIN + i);
		if (STEP_SAVED(step) && !read_word(s, place, cfa + STEP_SAVED(step) * 8, &fp))
			return 0;
		if (!read_word(s, place, COMMON_RETURN(step, cfa), &pc))
			return 0;
		pc = PLAIN_ADDRESS(pc);
		sp = cfa;
	}
	return 0;
}

#endif
