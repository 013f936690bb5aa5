/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Call stacks by .eh_frame.
 *
 * A frame's rule says how to find the canonical frame address (CFA), the
 * value of the stack pointer once the frame has returned; the return address
 * and the caller's registers lie at fixed distances from it. Only the frame
 * pointer is followed all the way. The other saved registers are needed where
 * a rule computes its CFA from one, which is rare: then the frames walked so
 * far tell where the value was saved (saved_register).
 *
 * Functions that are not static are verified once, on their own, and may be
 * called from anywhere; they take numbers only (5.10).
 */
#ifndef MEMTRACE_UNWIND_H
#define MEMTRACE_UNWIND_H

#include "emit.h"
#include "reuse.h"
#include "signal.h"
#include "thread.h"
#include "unwind_step.h"

#if defined(__TARGET_ARCH_x86)
#define RETURN_ADDRESS(cfa) ((cfa) - 8)
/* struct ucontext of arch/x86/include/uapi/asm; the handler has returned to the restorer. */
#define CONTEXT_SP 160
#define CONTEXT_PC 168
#define CONTEXT_SIZE 176
static __always_inline u32 context_register(u32 reg)
{
	switch (reg) {
	case 0: return 120; /* rbp */
	case 1: return 128; /* rbx */
	}
	return 72 + (reg - 2) * 8; /* r12 to r15 */
}
static __always_inline void keep_registers(struct scratch *s, struct pt_regs *ctx)
{
	s->regs[0] = LOAD_REG(ctx, bp);
	s->regs[1] = LOAD_REG(ctx, bx);
	s->regs[2] = LOAD_REG(ctx, r12);
	s->regs[3] = LOAD_REG(ctx, r13);
	s->regs[4] = LOAD_REG(ctx, r14);
	s->regs[5] = LOAD_REG(ctx, r15);
}
#elif defined(__TARGET_ARCH_arm64)
/* siginfo, then struct ucontext of arch/arm64/include/uapi/asm. */
#define RETURN_ADDRESS(cfa) (cfa) /* where the kernel says a hijacked return was */
#define CONTEXT_REGS (128 + 176 + 8)
#define CONTEXT_SP (CONTEXT_REGS + 31 * 8)
#define CONTEXT_PC (CONTEXT_SP + 8)
#define CONTEXT_SIZE (CONTEXT_PC + 8)
static __always_inline u32 context_register(u32 reg)
{
	if (reg < 2)
		return CONTEXT_REGS + (29 + reg) * 8; /* x29, lr */
	return CONTEXT_REGS + (19 + reg - 2) * 8; /* x19 to x22 */
}
static __always_inline void keep_registers(struct scratch *s, struct pt_regs *ctx)
{
	s->regs[0] = LOAD_REG(ctx, regs[29]);
	s->regs[1] = 0; /* the call to the allocator has overwritten it */
	s->regs[2] = LOAD_REG(ctx, regs[19]);
	s->regs[3] = LOAD_REG(ctx, regs[20]);
	s->regs[4] = LOAD_REG(ctx, regs[21]);
	s->regs[5] = LOAD_REG(ctx, regs[22]);
}
#endif

/* Where frame i's rule says that the caller's register lies; 0: not saved. */
static __always_inline u64 saved_at(struct unwind_rule *rule, u32 reg, u64 cfa, u64 fp)
{
	s64 off;

	if (reg >= SAVED_REGS)
		return 0;
	off = rule->saved[reg];
	if (rule->from_fp >> reg & 1)
		return fp + off * 8;
	return off ? cfa + off * 8 : 0;
}

/* Where frame i has the register saved; 0: it has not, ~0: who knows. */
__attribute__((noinline)) u64 saved_in(u32 i, u32 reg, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct unwind_rule *rule;
	u32 number;

	if (!s || i >= MAX_FRAMES)
		return ~0ULL;
	number = s->walked[i].rule;
	rule = bpf_map_lookup_elem(&rules, &number);
	if (!rule || rule->kind == RULE_NONE || reg >= SAVED_REGS)
		return ~0ULL;
	if (rule->kind == RULE_SIGNAL)
		return s->walked[i].cfa + context_register(reg);
	BARRIER(reg);
	return saved_at(rule, reg, s->walked[i].cfa, s->walked[i].fp);
}

/* The value that a saved register had in a frame: where the nearest inner frame saved it. */
__attribute__((noinline)) u64 saved_register(u32 frame, u32 reg, u32 place)
{
	struct scratch *s;
	u64 at, value = 0;

	for (u32 i = 1; i < MAX_FRAMES && i <= frame; i++) {
		at = saved_in(frame - i, reg, place);
		if (!at)
			continue;
		bpf_probe_read_user(&value, sizeof(value), (void *)at);
		return value;
	}
	s = scratch_at(place);
	BARRIER(reg);
	return s && reg < SAVED_REGS ? s->regs[reg] : 0;
}

/*
 * A return probe (another tool's, or ours on an outer call) replaces the return
 * address by the kernel's trampoline, which begins a page. The kernel keeps the
 * address for it.
 */
__attribute__((noinline)) u64 trampoline_target(u64 slot, u64 pc)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct uprobe_task *utask = NULL;
	struct return_instance *ri = NULL;
	unsigned long at = 0, to = 0;

	bpf_probe_read_kernel(&utask, sizeof(utask), __builtin_preserve_access_index(&task->utask));
	if (!utask)
		return pc;
	bpf_probe_read_kernel(&ri, sizeof(ri), __builtin_preserve_access_index(&utask->return_instances));
	for (int i = 0; i < 64 && ri; i++) {
		bpf_probe_read_kernel(&at, sizeof(at), __builtin_preserve_access_index(&ri->stack));
		if (at == slot) {
			bpf_probe_read_kernel(&to, sizeof(to), __builtin_preserve_access_index(&ri->orig_ret_vaddr));
			return to;
		}
		if (bpf_probe_read_kernel(&ri, sizeof(ri), __builtin_preserve_access_index(&ri->next)))
			break;
	}
	return pc;
}

/*
 * Have a thread that is watched stop before its next instruction: the tracer,
 * which sees the signal by ptrace and drops it, lets it go on once it knows
 * the code.
 */
static __always_inline void stop_thread(u32 tgid)
{
	u32 tid = bpf_get_current_pid_tgid(), *left = bpf_map_lookup_elem(&stoppable, &tgid);

	if (!left || *left == 0 || !is_watched((void *)bpf_get_current_task()))
		return;
	--*left; /* a race costs a stop more */
	if (bpf_map_update_elem(&stopped, &tid, &tgid, BPF_NOEXIST) == 0)
		bpf_send_signal_thread(SIGURG);
}

/* Have a thread that has loaded code stop, if it is watched; false: it is not. */
static __always_inline bool hold_loader(struct self self)
{
	u32 why = self.tgid | STOPPED_LOADING;

	return is_watched((void *)bpf_get_current_task()) && bpf_map_update_elem(&stopped, &self.tid, &why, BPF_ANY) == 0 &&
	       bpf_send_signal_thread(SIGURG) == 0;
}

/*
 * The frame is in no mapping that we know: ask the tracer to look at the
 * mappings again, at most every half millisecond. Not 0 if it is no frame at all.
 */
__attribute__((noinline)) int frame_unknown(u64 pc, u32 frame, u32 place)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, key = tgid % STALE_SLOTS;
	u64 now = bpf_ktime_get_ns(), *last = bpf_map_lookup_elem(&stale, &key);
	struct scratch *s = scratch_at(place);

	if (!s || s->guessed == frame)
		return 1;
	if (s->unknown > MAX_FRAMES) {
		count_loss(LOSS_UNMAPPED);
		stop_thread(tgid);
	}
	s->unknown = frame;
	if (!last || now - *last < 500000)
		return 0;
	*last = now;
	emit_urgent(get_self(), RECORD_STALE, pc, tgid, 0, 0);
	return 0;
}

/* Where a step led. */
enum outcome { CAME_ON, CAME_TO_BOTTOM, CAME_TO_NOTHING };

static __always_inline bool read_user(u64 addr, u64 *to)
{
	return bpf_probe_read_user(to, sizeof(*to), (void *)addr) == 0;
}

/* A frame pointer that leads further than this is none. */
#define MAX_FP_FRAME (8ULL << 20)

static __always_inline u32 step_by_fp(struct scratch *s, u32 frame)
{
	u64 fp = s->at.fp;

	if (!fp) /* as the ABI marks the outermost frame */
		return s->unknown == frame ? CAME_TO_NOTHING : CAME_TO_BOTTOM;
	if (fp < s->at.sp || (fp & 7) || fp - s->at.sp > MAX_FP_FRAME)
		return CAME_TO_NOTHING;
	if (!read_user(fp, &s->at.fp) || !read_user(fp + 8, &s->at.pc))
		return CAME_TO_NOTHING;
	s->at.sp = fp + 16;
	if (!s->at.pc)
		return CAME_TO_BOTTOM;
	s->stack.head.flags |= RECORD_FP_GUESS;
	s->guessed = frame + 1;
	return CAME_ON;
}

/* All registers are in the frame; the stack may be another one. */
static __always_inline u32 step_signal(struct scratch *s)
{
	u64 context = s->at.sp;

	if (!read_user(context + context_register(0), &s->at.fp) || !read_user(context + CONTEXT_SP, &s->at.sp) ||
	    !read_user(context + CONTEXT_PC, &s->at.pc))
		return CAME_TO_NOTHING;
#if defined(__TARGET_ARCH_arm64)
	if (!read_user(context + context_register(1), &s->at.lr))
		return CAME_TO_NOTHING;
#endif
	s->at.pc++;
	return CAME_ON;
}

/* The function has changed to another stack since it saved the frame pointer, right below its return address. */
static __always_inline u32 step_switch(struct scratch *s)
{
	u64 fp = s->at.fp;

	if (!fp || fp & 7 || !read_user(fp, &s->at.fp) || !read_user(fp + 8, &s->at.pc))
		return CAME_TO_NOTHING;
	s->at.sp = fp + 16;
	return s->at.pc ? CAME_ON : CAME_TO_BOTTOM;
}

static __always_inline bool find_cfa(struct scratch *s, struct unwind_rule *rule, u32 frame, u32 place, u64 *cfa)
{
	s64 off = rule->cfa;

	switch (rule->kind) {
	case RULE_SP:
		*cfa = s->at.sp + off;
		return true;
	case RULE_FP:
		*cfa = s->at.fp + off;
		return true;
	case RULE_PLT:
		*cfa = s->at.sp + (((s->at.pc - 1) & 15) >= rule->param ? 16 : 8);
		return true;
	case RULE_REG:
		*cfa = saved_register(frame, rule->reg, place) + off;
		return true;
	case RULE_DEREF:
		return read_user((rule->reg ? saved_register(frame, rule->reg, place) : s->at.fp) + off, cfa);
	}
	return false;
}

static __always_inline bool step_return(struct scratch *s, struct unwind_rule *rule, u64 cfa, u64 fp)
{
#if defined(__TARGET_ARCH_x86)
	if (cfa == s->at.sp)
		return false;
	return read_user(RETURN_ADDRESS(cfa), &s->at.pc);
#else
	u64 at = saved_at(rule, 1, cfa, fp);

	if (at) {
		if (!read_user(at, &s->at.pc))
			return false;
	} else {
		s->at.pc = s->at.lr;
	}
	s->at.lr = 0;
	s->at.pc = PLAIN_ADDRESS(s->at.pc);
	return true;
#endif
}

/* One frame outwards from s->at, for all that unwind does not do itself. */
__attribute__((noinline)) int step_out(u32 frame, u32 number, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct unwind_rule *rule = bpf_map_lookup_elem(&rules, &number);
	u64 cfa = 0, at, fp;

	if (!s || !rule)
		return CAME_TO_NOTHING;
	if (rule->kind == RULE_NONE)
		return step_by_fp(s, frame);
	if (rule->kind == RULE_SIGNAL)
		return step_signal(s);
	if (rule->kind == RULE_SWITCH)
		return step_switch(s);
	if (!find_cfa(s, rule, frame, place, &cfa) || cfa < s->at.sp)
		return CAME_TO_NOTHING;
	BARRIER(frame);
	if (frame < MAX_FRAMES)
		s->walked[frame].cfa = cfa;
	fp = s->at.fp;
	at = saved_at(rule, 0, cfa, fp);
	if (at && !read_user(at, &s->at.fp))
		return CAME_TO_NOTHING;
	if (!step_return(s, rule, cfa, fp))
		return CAME_TO_NOTHING;
	if (!(s->at.pc & 4095))
		s->at.pc = trampoline_target(RETURN_ADDRESS(cfa), s->at.pc);
	s->at.sp = cfa;
	return s->at.pc ? CAME_ON : CAME_TO_BOTTOM;
}

/*
 * Walk so many frames from s->at on, which is frame number first, into the stack record, and add them to the memo's hash.
 *
 * The loop itself takes only the common steps. What else differs from frame to frame is kept in memory, so that
 * the verifier need not tell the cases apart.
 */
__attribute__((noinline)) int unwind_run(u32 first, u64 space, u32 place)
{
	u32 n = first, came = CAME_TO_NOTHING;
	struct scratch *s = scratch_at(place);
	u64 pc, sp, fp, sum;
	struct memo *m;

	if (!s)
		return CAME_TO_NOTHING;
	m = &s->memo;
	pc = s->at.pc;
	sp = s->at.sp;
	fp = s->at.fp;
	sum = m->sum;
	for (u32 run = 0; run < WALK_FRAMES; run++) {
		u32 i = n & (MOST_FRAMES - 1);
		struct memo_frame *f = memo_at(m, MEMO_ORIGIN + i);
		u64 step = step_at(pc - 1, space), cfa, hash;
		s64 saved;

		if (step == STEP_UNKNOWN) {
			if (frame_unknown(pc, i, place))
				goto out;
			step = 0;
		}
		BARRIER(i);
		s->stack.frames[i & (MOST_FRAMES - 1)] = pc;
		hash = frame_hash(pc);
		sum = add_frame(sum, hash);
		n++;
		if (step & STEP_END) {
			note_frame(m, f, pc, sp, fp, hash, 0, sp); /* nobody steps on from it */
			if ((sp - m->base) >> 32)
				m->noted = 0;
			came = CAME_TO_BOTTOM;
			goto out;
		}
		if (n >= stack_depth)
			goto out;
		struct walked *w = &s->walked[i & (MOST_FRAMES - 1)];
		w->fp = fp;
		w->rule = STEP_RULE(step);
		if (!(step & STEP_COMMON)) {
			m->noted = 0;
			w->cfa = sp;
			s->at.pc = pc;
			s->at.sp = sp;
			s->at.fp = fp;
			came = step_out(i, STEP_RULE(step), place);
			if (came)
				goto out;
			came = CAME_TO_NOTHING;
			pc = s->at.pc;
			sp = s->at.sp;
			fp = s->at.fp;
			continue;
		}
		cfa = (step & STEP_FROM_FP ? fp : sp) + STEP_CFA(step);
		if (cfa <= sp)
			goto out;
		w->cfa = cfa;
		m->noted &= note_frame(m, f, pc, sp, fp, hash, step, cfa);
		saved = STEP_SAVED(step);
		if (saved && !read_word(s, place, cfa + saved * 8, &fp))
			goto out;
		if (!read_word(s, place, COMMON_RETURN(step, cfa), &pc))
			goto out;
		pc = PLAIN_ADDRESS(pc);
		if (!(pc & 4095)) {
			pc = trampoline_target(RETURN_ADDRESS(cfa), pc);
			if (!pc) {
				m->noted = 0;
				came = CAME_TO_BOTTOM;
				goto out;
			}
		}
		sp = cfa;
	}
	came = CAME_ON;
out:
	s->at.pc = pc;
	s->at.sp = sp;
	s->at.fp = fp;
	s->stack.head.aux = n;
	m->sum = sum;
	return came;
}

/*
 * Walk the stack from the frame that take_stack put into the scratch
 * space, into its stack record; returns the hash of the frames.
 */
__attribute__((noinline)) u64 unwind(u32 tgid, u32 place)
{
	struct scratch *s = scratch_at(place);
	u64 space = own_space(tgid);
	u32 came = CAME_ON;
	struct memo *m;

	if (!s)
		return 0;
	m = &s->memo;
	s->guessed = s->unknown = MAX_FRAMES + 1;
	s->stack.head.flags = 0;
	s->stack.head.aux = 0;
	m->end = m->first;
	m->noted = 1;
	m->base = MEMO_BASE(s->at.sp);
	m->sum = 0;
	for (u32 run = 0; run < RUNS(WALK_FRAMES) && came == CAME_ON; run++)
		came = unwind_run(s->stack.head.aux, space, place);
	s->stack.head.flags |= came == CAME_TO_BOTTOM ? RECORD_BOTTOM : RECORD_TRUNCATED;
	if (came == CAME_TO_BOTTOM && m->noted) {
		m->space = space;
		m->first = MEMO_ORIGIN;
		m->end = MEMO_ORIGIN + s->stack.head.aux;
	}
	return m->sum;
}

#endif
