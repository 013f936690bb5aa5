/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Outer frames that are still where the last walk on this CPU found them.
 *
 * From one allocation to the next a thread's outer frames mostly stay. Where a
 * walk comes to a frame with the address, stack pointer and frame pointer of one
 * in the memo, what lies outwards is the same as far as the words that led there
 * are: return addresses and saved frame pointers. To compare them costs a
 * fraction of finding the rules again, and is as exact, since a common step
 * depends on nothing else; other steps are never remembered. A frame that
 * differs is looked up, and the next one compared again.
 *
 * Frames of the memo lie in f[first, end). The outer ones stay at their
 * places when inner ones come and go.
 */
#ifndef MEMTRACE_REUSE_H
#define MEMTRACE_REUSE_H

#include "thread.h"
#include "unwind_step.h"
#include "window.h"

/*
 * The loops that go outwards do so many frames at a time, since the verifier goes through a loop's body as often as it may
 * run. One more call for a deep stack costs less than that.
 */
#define SUM_FRAMES 32
#define WALK_FRAMES 16
#define RUNS(frames) (MAX_FRAMES / (frames) + 1)

/* Frames are noted by the distance of their stack pointer from here, in 32 bits. */
#define MEMO_BASE(sp) ((sp) - (1ULL << 31))

static __always_inline u64 frame_hash(u64 pc)
{
	pc *= 0xd6e8feb86659fd93ULL;
	pc ^= pc >> 32;
	pc *= 0xd6e8feb86659fd93ULL;
	return pc ^ pc >> 32;
}

/* The hash of a stack with one frame more, outwards. */
static __always_inline u64 add_frame(u64 sum, u64 hash)
{
	return sum * 0x9fb21c651e98df25ULL + hash;
}

static __always_inline struct memo_frame *memo_at(struct memo *m, u32 i)
{
	BARRIER(i);
	return &m->f[i & (MEMO_FRAMES - 1)];
}

/* Note a frame and the common step from it; false where the step can't be noted. */
static __always_inline bool note_frame(struct memo *m, struct memo_frame *f, u64 pc, u64 sp, u64 fp, u64 hash, u64 step, u64 cfa)
{
	u64 ret = (COMMON_RETURN(step, cfa) - sp) / 8, saved = NOT_SAVED, off = sp - m->base;

	if (STEP_SAVED(step))
		saved = (cfa + STEP_SAVED(step) * 8 - sp) / 8;
	f->pc = pc;
	f->fp = fp;
	f->hash = hash;
	f->off = off;
	f->ret = ret;
	f->saved = saved;
	return ret < NOT_SAVED && saved <= NOT_SAVED && !(off >> 32);
}

/*
 * Let frame number i be the one at s->at, with the step from there. 0: what lies
 * outwards may lie elsewhere, too. The bottom is never replaced, as there is no
 * step from it.
 */
__attribute__((noinline)) int replace_frame(u32 i, u32 tgid, u32 place)
{
	struct scratch *s = scratch_at(place);
	u64 pc, sp, fp, step, cfa;
	struct memo *m;

	if (!s || i + 1 >= s->memo.end)
		return 0;
	m = &s->memo;
	pc = s->at.pc;
	fp = s->at.fp;
	sp = m->base + memo_at(m, i)->off;
	step = step_at(pc - 1, own_space(tgid));
	if (step == STEP_UNKNOWN || !(step & STEP_COMMON))
		return 0;
	cfa = (step & STEP_FROM_FP ? fp : sp) + STEP_CFA(step);
	return cfa == m->base + memo_at(m, i + 1)->off && note_frame(m, memo_at(m, i), pc, sp, fp, frame_hash(pc), step, cfa);
}

/*
 * Go outwards from the memo's cursor, whose frame is as it was, and add so many frames to the hash sum; 0: those outwards lie
 * elsewhere. Frames in between that are others now, as where a function calls from another line
 * than before, are replaced. What the outermost one returns to is not looked at:
 * its rule says that it is the outermost.
 */
__attribute__((noinline)) u64 sum_run(u64 sum, u32 tgid, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct memo_frame *f;
	struct memo *m;
	u64 pc, fp;
	u32 i;

	if (!s)
		return 0;
	m = &s->memo;
	i = m->at;
	f = memo_at(m, i);
	fp = f->fp;
	for (u32 n = 0; n < SUM_FRAMES; n++) {
		sum = add_frame(sum, f->hash);
		if (++i >= m->end)
			break;
		/* The lower word first: where the window is read anew, it then has both. */
		if (f->saved != NOT_SAVED && !read_word(s, place, m->base + f->off + f->saved * 8, &fp))
			return 0;
		if (!read_word(s, place, m->base + f->off + f->ret * 8, &pc))
			return 0;
		pc = PLAIN_ADDRESS(pc);
		f = memo_at(m, i);
		if ((f->pc ^ pc) | (f->fp ^ fp)) {
			s->at.pc = pc;
			s->at.fp = fp;
			if (!replace_frame(i, tgid, place))
				return 0;
		}
	}
	m->at = i;
	return sum;
}

/* The hash of the stack whose inner frames have the memo's and whose next one is at the cursor; 0: see sum_run. */
static __always_inline u64 sum_outwards(struct memo *m, u32 tgid, u32 place)
{
	u64 sum = m->sum;

	for (u32 run = 0; run < RUNS(SUM_FRAMES) && m->at < m->end; run++) {
		sum = sum_run(sum, tgid, place);
		if (!sum)
			return 0;
	}
	return m->at < m->end ? 0 : sum;
}

/* Put the fresh frames in front of frame i, if there is room. */
static __always_inline void keep_fresh(struct memo *m, u32 i, u32 fresh)
{
	if (i < fresh || i >= MEMO_FRAMES)
		return;
	for (u32 k = 0; k < FRESH_FRAMES && k < fresh; k++)
		*memo_at(m, i - fresh + k) = m->fresh[k];
	m->first = i - fresh;
}

/* The memo's cursor moves on from a frame that lies further in than off. */
static __always_inline void pass_inner(struct memo *m, u32 off)
{
	u32 at = m->at;

	if (at < m->end && memo_at(m, at)->off < off)
		m->at = at + 1;
}

/*
 * Walk to the innermost frame that the last walk here came to as well, and put
 * the cursor there; 0: a whole walk is due.
 */
__attribute__((noinline)) int walk_fresh(u32 tgid, u32 place)
{
	struct scratch *s = scratch_at(place);
	u64 space = own_space(tgid), pc, sp, fp, sum = 0, hash, step, cfa;
	struct memo *m;

	if (!s || !space || s->memo.space != space)
		return 0;
	m = &s->memo;
	pc = s->at.pc;
	sp = s->at.sp;
	fp = s->at.fp;
	m->at = m->first;
	for (u32 i = 0; i < FRESH_FRAMES; i++) {
		struct memo_frame *f;

		if ((sp - m->base) >> 32)
			return 0;
		pass_inner(m, sp - m->base);
		pass_inner(m, sp - m->base);
		pass_inner(m, sp - m->base);
		if (m->at >= m->end)
			return 0;
		f = memo_at(m, m->at);
		if (!((f->off ^ (u32)(sp - m->base)) | (f->pc ^ pc) | (f->fp ^ fp))) {
			m->inner = i;
			m->sum = sum;
			return 1;
		}
		step = step_at(pc - 1, space);
		if (step == STEP_UNKNOWN || !(step & STEP_COMMON))
			return 0;
		cfa = (step & STEP_FROM_FP ? fp : sp) + STEP_CFA(step);
		hash = frame_hash(pc);
		if (cfa <= sp || !note_frame(m, &m->fresh[i], pc, sp, fp, hash, step, cfa))
			return 0;
		sum = add_frame(sum, hash);
		if (STEP_SAVED(step) && !read_word(s, place, cfa + STEP_SAVED(step) * 8, &fp))
			return 0;
		if (!read_word(s, place, COMMON_RETURN(step, cfa), &pc))
			return 0;
		pc = PLAIN_ADDRESS(pc);
		sp = cfa;
	}
	return 0;
}

/* The hash of the stack, if its outermost frames are those of the last walk here; 0: a whole walk is due. */
static __always_inline u64 walk_again(struct scratch *s, u32 tgid, u32 place)
{
	struct memo *m = &s->memo;
	u32 at, fresh;
	u64 sum;

	if (!walk_fresh(tgid, place))
		return 0;
	at = m->at;
	fresh = m->inner;
	if (at <= fresh || fresh + m->end - at > stack_depth)
		return 0;
	sum = sum_outwards(m, tgid, place);
	if (!sum)
		return 0;
	if (fresh)
		keep_fresh(m, at, fresh);
	s->at.sp = m->base + memo_at(m, m->end - 1)->off;
	return sum;
}

#endif
