//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel half of memtrace: probes at the allocator's functions.
 *
 * One allocation is one event, made at the return of the outermost allocator
 * call, or at its entry where the result can be predicted; what the allocator
 * calls inside is its own business and is hidden (malloc in calloc, mmap in
 * malloc). A free is one event, made before the allocator runs, so that it
 * precedes every reuse of the address.
 */
#include "block.h"
#include "fault.h"
#include "maps.h"
#include "mark.h"
#include "newcode.h"
#include "pool.h"
#include "predict.h"
#include "process.h"
#include "regs.h"
#include "relay.h"
#include "sample.h"
#include "signal.h"
#include "stack.h"
#include "thread.h"
#include "touch.h"
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

/* Kept in the object's BTF, so that bpf2go generates their Go side. */
const struct record_realloc *unused_realloc __attribute__((unused));
const union ring_line *unused_line __attribute__((unused));
const enum ring_layout unused_layout __attribute__((unused));
const struct stack_record *unused_stack __attribute__((unused));
const struct python_frame *unused_python __attribute__((unused));
const struct table_chunk *unused_chunk __attribute__((unused));
const struct unwind_segment *unused_segment __attribute__((unused));
const enum table_word unused_word __attribute__((unused));
const enum loss unused_loss __attribute__((unused));
const enum hit unused_hit __attribute__((unused));
const enum sampling_key unused_sampling_key __attribute__((unused));
const struct signal_key unused_signal_key __attribute__((unused));

/* n × size as calloc computes it. An overflow makes the call fail: it is then a size that does so, too. */
static __always_inline u64 product(u64 n, u64 size)
{
	u64 high = (n >> 32) * (u32)size + (u64)(u32)n * (size >> 32) + ((u64)(u32)n * (u32)size >> 32);

	return (n >> 32 && size >> 32) || high >> 32 ? ~0ULL : n * size;
}

/* Where the calling process's memory of brk(2) ends; 0 where that can't be read. */
static __always_inline u64 program_break(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, mm, brk);
}

static __always_inline void keep_arguments(struct thread *t, struct pt_regs *ctx, u64 cookie)
{
	u32 shape = COOKIE_SHAPE(cookie);
	u64 first = reg_value(ctx, COOKIE_REG(cookie, 0)), second = 0, third = 0;

	t->shape = shape;
	if (shape > SHAPE_MALLOC) {
		second = reg_value(ctx, COOKIE_REG(cookie, 1));
		third = reg_value(ctx, COOKIE_REG(cookie, 2));
	}
	switch (shape) {
	case SHAPE_CALLOC:
		t->size = product(first, second);
		return;
	case SHAPE_REALLOC:
		t->old = first;
		t->size = second;
		t->began = bpf_ktime_get_ns();
		return;
	case SHAPE_REALLOCARRAY:
		t->old = first;
		t->size = product(second, third);
		t->began = bpf_ktime_get_ns();
		return;
	case SHAPE_POSIX_MEMALIGN:
		t->out = first;
		t->size = second;
		return;
	case SHAPE_RESIZE:
	case SHAPE_MREMAP:
		t->old = first;
		t->size = second;
		t->out = third;
		t->began = bpf_ktime_get_ns();
		return;
	case SHAPE_POOL_ALLOC:
	case SHAPE_POOL_CURRENT:
		t->size = first;
		t->old = shape == SHAPE_POOL_ALLOC ? second : pool_of_variable(ctx, cookie);
		return;
	case SHAPE_POOL_BEGIN:
		t->old = first;
		t->size = second;
		return;
	case SHAPE_POOL_BEGIN_OUT:
		t->out = first;
		t->old = second;
		t->size = 0;
		return;
	case SHAPE_BRK:
		t->old = program_break();
		t->size = first;
		return;
	default:
		t->size = first;
	}
}

/* A block of a chain ends. A function of its own, so that the verifier need not follow it in each step of a loop. */
__attribute__((noinline)) int free_linked(u64 block)
{
	struct self self = get_self();
	struct thread *t = thread_find(self);

	if (t)
		free_block(self, t, block, 0);
	return 0;
}

static long free_link(u32 i, void *data)
{
	u64 block = next_in_chain(data);

	if (!block)
		return 1;
	free_linked(block);
	return 0;
}

/* The blocks of a chain end. has_loop: the kernel has bpf_loop (5.17, as all that have uprobe_multi do). */
static __always_inline void free_chain(struct pt_regs *ctx, u64 cookie, bool has_loop)
{
	struct chain c = {
		.next = reg_value(ctx, COOKIE_REG(cookie, 0)),
		.distance = reg_value(ctx, COOKIE_REG(cookie, 1)),
	};

	if (has_loop) {
		bpf_loop(CHAIN_STEPS, free_link, &c, 0);
	} else {
		for (int i = 0; i < FEW_CHAIN_STEPS && c.next; i++)
			free_linked(next_in_chain(&c));
	}
	if (c.next)
		count_loss(LOSS_READ_FAULT);
}

/* What is to be done about a call that begins. */
enum entered {
	NO_RETURN, /* nothing more */
	RETURN,    /* wait for its return */
	EXIT,      /* at the function's own instruction */
	PREDICTED, /* record it: its return would tell nothing new */
};

/* No address space has room for a block of this size. */
#define NEVER_SERVED (1ULL << 47)

#define KIND_BITS 8
#define KIND_MASK ((1 << KIND_BITS) - 1)

/* RAM and swap, in bytes. */
const volatile u64 all_memory = ~0ULL;

/*
 * What is to be done about a call that is likely to throw; RETURN: it is not. An exception can't
 * pass a return address that the kernel has replaced by its trampoline's: it ends the program instead of
 * the call. So such calls keep theirs.
 */
static __always_inline enum entered refuse(struct pt_regs *ctx, struct thread *t, u64 cookie)
{
	if ((t->shape != SHAPE_MALLOC && t->shape != SHAPE_CALLOC) || !COOKIE_THROWS(cookie) || t->size <= all_memory)
		return RETURN;
	if (t->size >= NEVER_SERVED) {
		t->from = (struct cursor){ .sp = REG_SP(ctx), .fp = REG_FP(ctx) };
		return PREDICTED; /* that it fails */
	}
	count_loss(LOSS_ABANDONED);
	return NO_RETURN;
}

/* Whether the return is needed of a call that is to be recorded; k: see alloc_enter. */
static __always_inline enum entered await(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie, struct known_probe *k)
{
	enum entered refused;

	t->predicted = 0;
	if (k && is_predicted(self, ctx, t, k))
		return PREDICTED;
	refused = k ? refuse(ctx, t, cookie) : RETURN;
	if (refused != RETURN)
		return refused;
	t->outer = REG_IP(ctx);
	t->sp = REG_SP(ctx);
	t->by_exit = COOKIE_BY_EXIT(cookie) | COOKIE_OPEN_ENDED(cookie) << 1 | COOKIE_FRAMED(cookie) << 2;
	if (!t->by_exit)
		return RETURN;
	t->ret = return_address(ctx);
	return EXIT;
}

/*
 * Whether the allocation that begins ends a release that may have returned unseen. Its return address may still lie on the
 * stack, and all allocations below would be taken for its own, and hidden. A release that does allocate is rare.
 * One that has jumped on to this allocation goes on: the stack pointer is the same.
 */
static __always_inline bool ends_release(struct thread *t, struct pt_regs *ctx, u64 cookie)
{
	if (!(t->by_exit & OPEN_ENDED) || REG_SP(ctx) == t->sp || COOKIE_SHAPE(cookie) == SHAPE_RELEASE)
		return false;
	t->sp = 0;
	return true;
}

/*
 * The entry of an allocation. k: the probe, where its return can be left out, or
 * NULL; has_loop: see free_chain.
 */
static __always_inline enum entered alloc_enter(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie, struct known_probe *k, bool has_loop)
{
	enum relay relay = relay_enter(ctx, k, cookie);
	enum entered entered;

	if (relay == RELAY_PASSED) {
		if (can_sample)
			count_hit(self, HIT_ENTRY, 1);
		return NO_RETURN;
	}
	if (COOKIE_SHAPE(cookie) == SHAPE_POOL_CHANGE) {
		if (is_chain(cookie))
			free_chain(ctx, cookie, has_loop);
		return change_enter(self, ctx, t, cookie) && !COOKIE_BY_EXIT(cookie) ? RETURN : NO_RETURN;
	}
	if (is_nested(t, ctx) && !ends_release(t, ctx, cookie)) {
		/* Within a release: part of it, or a block that the program sees. Whoever knows the blocks can tell. */
		if (t->shape == SHAPE_RELEASE && COOKIE_SHAPE(cookie) == SHAPE_RELEASE)
			free_block(self, t, reg_value(ctx, COOKIE_REG(cookie, 0)), RECORD_NESTED);
		else
			t->hidden++;
		if (k)
			relay_nested(t, ctx);
		if (can_sample) {
			mark_nesting(t);
			count_hit(self, HIT_RETURN, 1); /* its return traps, too, unless its function is not asked for it */
		}
		/* Where the one in progress has jumped to it, it returns for both. */
		return t->by_exit && REG_SP(ctx) == t->sp && !COOKIE_BY_EXIT(cookie) ? RETURN : NO_RETURN;
	}
	t->hidden = 0;
	t->relay = relay;
	t->forward_sp = 0;
	t->free_sp = 0;
	keep_arguments(t, ctx, cookie);
	if (!can_sample && (t->shape == SHAPE_REALLOC || t->shape == SHAPE_REALLOCARRAY || t->shape == SHAPE_RESIZE))
		choose_old(self, t);
	if (t->shape == SHAPE_RELEASE)
		free_block(self, t, t->size, is_ending(ctx, t));
	if (!can_sample)
		return await(self, ctx, t, cookie, k);
	t->keep = choose(t);
	if (k && !t->keep && may_skip(t, k)) {
		count_hit(self, HIT_ENTRY, 1);
		return NO_RETURN;
	}
	t->timed = t->keep && t->recorded % TIME_EVERY == 0 ? bpf_ktime_get_ns() : 0;
	entered = await(self, ctx, t, cookie, k);
	if (entered == PREDICTED || entered == EXIT) {
		count_hit(self, HIT_ENTRY, 1);
		count_hit(self, HIT_PREDICTED, !!t->keep);
	} else {
		count_hit(self, t->keep ? HIT_RECORDED : HIT_RETURN, 1);
	}
	return entered;
}

/* MAP_FAILED */
#define IS_ERROR(addr) ((u64)(addr) > -4096ULL)

/* The program break has moved from where to where: memory has come or gone in between. */
static __always_inline u32 moved_break(struct thread *t, u64 from, u64 to, u64 *addr)
{
	if (!from) {
		count_loss(LOSS_READ_FAULT);
		return 0;
	}
	if (from == to)
		return 0;
	*addr = from < to ? from : to;
	t->size = from < to ? to - from : from - to;
	return from < to ? RECORD_MMAP : RECORD_MUNMAP;
}

/* What came of the call, and the block in *addr; 0: nothing that is of interest. */
static __always_inline u32 outcome(struct thread *t, u64 *addr)
{
	u64 was;

	switch (t->shape) {
	case SHAPE_REALLOC:
	case SHAPE_REALLOCARRAY:
		/* realloc(p, 0) frees p and returns NULL in glibc; with a size, NULL is failure. */
		return !*addr && (t->size || !t->old) ? RECORD_REALLOC_FAILED : RECORD_REALLOC;
	case SHAPE_RELEASE:
		return 0;
	case SHAPE_RESIZE:
		if (*addr < t->size) {
			*addr = 0;
			return RECORD_REALLOC_FAILED;
		}
		if (*addr - t->size < t->out)
			t->size = *addr;
		else
			t->size += t->out;
		*addr = t->old;
		return RECORD_REALLOC;
	case SHAPE_MMAP:
		return IS_ERROR(*addr) ? 0 : RECORD_MMAP;
	case SHAPE_POOL_BEGIN:
		return *addr ? RECORD_POOL_BEGIN : 0;
	case SHAPE_MREMAP:
		if (IS_ERROR(*addr))
			return 0;
		was = t->size;
		t->size = t->out;
		t->out = was;
		return RECORD_MREMAP;
	case SHAPE_BRK: /* returns an int */
		return (u32)*addr ? 0 : moved_break(t, t->old, t->size, addr);
	case SHAPE_SBRK:
		return IS_ERROR(*addr) ? 0 : moved_break(t, *addr, *addr + t->size, addr);
	case SHAPE_POSIX_MEMALIGN:
	case SHAPE_POOL_BEGIN_OUT:
		if ((u32)*addr) {
			*addr = 0;
		} else if (bpf_probe_read_user(addr, sizeof(*addr), (void *)t->out)) {
			count_loss(LOSS_READ_FAULT);
			return 0;
		}
	}
	if (t->shape == SHAPE_POOL_BEGIN_OUT)
		return *addr ? RECORD_POOL_BEGIN : 0;
	return *addr ? RECORD_ALLOC : RECORD_ALLOC_FAILED;
}

/* A call that nothing or little is recorded of, under pressure. */
static __always_inline void leave_out(struct self self, struct thread *t, u32 kind, enum choice choice)
{
	u32 flags = RECORD_OLD_ONLY | (t->keep & KEEP_TEMPORARY ? RECORD_TEMPORARY : 0);

	if (choice == TAKE_OLD && !emit_realloc(self, t, kind, 0, 0, flags))
		return;
	count_loss(kind == RECORD_ALLOC ? LEFT_OUT_ALLOC : LEFT_OUT_REALLOC);
}

/* A size in units of 4 KiB, the last one whole. */
static __always_inline u32 mremap_units(u64 size)
{
	u64 units = (size >> MREMAP_UNIT) + !!(size & ((1 << MREMAP_UNIT) - 1));

	return units < MREMAP_VAST ? units : MREMAP_VAST;
}

/* What is to be recorded of a call that has returned: the kind of record, with flags above it; 0: nothing, or all has been. */
static __always_inline u32 to_record(struct self self, struct thread *t, u64 addr)
{
	u32 kind = outcome(t, &addr), flags = 0;
	enum choice choice;

	t->result = addr;
	if (!kind)
		return 0;
	FORGET(kind, self.tid);
	FORGET(addr, self.tid);
	if (can_sample && t->shape == SHAPE_RESIZE)
		choose_resized(t);
	if (can_sample && t->keep & KEEP_TEMPORARY)
		flags = RECORD_TEMPORARY;
	if (can_sample && kind == RECORD_REALLOC && t->keep & KEEP_OLD && release_block(t->old))
		flags |= RECORD_RELEASED;
	if (can_sample && !(t->keep & KEEP_NEW)) {
		if (kind == RECORD_REALLOC)
			emit_realloc(self, t, kind, 0, 0, flags | RECORD_OLD_ONLY);
		return 0;
	}
	if (can_sample && (kind == RECORD_ALLOC || kind == RECORD_REALLOC) && addr) {
		record_block(addr);
		t->latest = addr;
	}
	if (!can_sample) {
		choice = choose_returned(self, t, kind, addr);
		if (choice != TAKE) {
			leave_out(self, t, kind, choice);
			return 0;
		}
		if (t->keep & KEEP_TEMPORARY)
			flags |= RECORD_TEMPORARY;
	}
	if (is_pooled(t->shape))
		flags |= RECORD_POOLED;
	if (kind == RECORD_MREMAP)
		t->taken = mremap_units(t->out);
	return kind | flags << KIND_BITS;
}

/* The verifier goes through this once, and not once for each state in which a program may come here; so through record. */
__attribute__((noinline)) u32 judge(u64 addr, u64 key, u32 where)
{
	struct self self = same_self(key, where);
	struct thread *t = same_thread(self, where);

	return t ? to_record(self, t, addr) : 0;
}

__attribute__((noinline)) int record(u32 what, u64 stack, u64 key, u32 where)
{
	struct self self = same_self(key, where);
	struct thread *t = same_thread(self, where);
	u32 kind = what & KIND_MASK, flags = what >> KIND_BITS;

	if (!t)
		return 0;
	if (kind == RECORD_REALLOC || kind == RECORD_REALLOC_FAILED || kind == RECORD_MREMAP || kind == RECORD_POOL_BEGIN || flags & RECORD_POOLED)
		emit_realloc(self, t, kind, t->result, stack, flags);
	else
		emit_sized(self, kind, t->result, t->size, stack, t->taken, t->shape >= SHAPE_BRK ? RECORD_BRK : 0);
	return 0;
}

/* Record what came of the call that t has the arguments of: addr is its result, t->from its caller. */
static __always_inline void alloc_result(struct self self, struct pt_regs *ctx, struct thread *t, u64 addr)
{
	u32 where = SELF_WHERE(self, t), what = judge(addr, SELF_KEY(self), where);
	u64 stack;

	if (!what)
		return;
	stack = t->shape == SHAPE_POOL_BEGIN ? 0 : take_stack(self, ctx, t); /* that one has a name */
	record(what, stack, SELF_KEY(self), where);
}

static __always_inline void alloc_result_timed(struct self self, struct pt_regs *ctx, struct thread *t, u64 addr)
{
	t->recorded++;
	alloc_result(self, ctx, t, addr);
	if (!t->timed)
		return;
	count_hit(self, HIT_TIMED, 1);
	count_hit(self, HIT_TIMED_NS, bpf_ktime_get_ns() - t->timed);
}

static __always_inline void record_call(struct self self, struct pt_regs *ctx, struct thread *t, u64 addr)
{
	if (!can_sample)
		alloc_result(self, ctx, t, addr);
	else if (t->keep)
		alloc_result_timed(self, ctx, t, addr);
}

/* Whether the call in progress has returned. */
static __always_inline bool has_returned(struct pt_regs *ctx, struct thread *t)
{
	if (t->ending && REG_SP(ctx) == SP_AFTER_RETURN(t->ending))
		t->ending = 0;
	/* Returns of nested calls come at another stack pointer. */
	if (!t->sp || REG_SP(ctx) != SP_AFTER_RETURN(t->sp))
		return false;
	t->sp = 0;
	t->from = (struct cursor){ .pc = REG_IP(ctx), .sp = REG_SP(ctx), .fp = REG_FP(ctx) };
	if (can_sample && t->timed)
		t->timed = bpf_ktime_get_ns();
	return true;
}

/* Whether the call in progress is about to return. */
static __always_inline bool has_exited(struct pt_regs *ctx, struct thread *t)
{
	if (!is_exit(ctx, t))
		return false;
	t->sp = 0;
	t->from = (struct cursor){ .pc = t->ret, .sp = SP_AFTER_RETURN(REG_SP(ctx)), .fp = REG_FP(ctx) };
	if (can_sample && t->timed)
		t->timed = bpf_ktime_get_ns();
	return true;
}

/*
 * free unmaps a large block, which would look like the program's own munmap:
 * a free keeps no depth, as its return is not probed.
 */
static __always_inline void munmap_enter(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie, u64 addr)
{
	u64 size = reg_value(ctx, COOKIE_REG(cookie, 1));

	if (t->freed - addr < size)
		t->freed = 0;
	else if (!is_ending(ctx, t))
		emit_sized(self, RECORD_MUNMAP, addr, size, 0, 0, 0);
}

/*
 * Some functions free by themselves or jump on to another probed one (sized
 * delete of tcmalloc): the second hit comes for the same block at the same
 * stack pointer, with no allocation in between.
 */
static __always_inline bool is_forwarded(struct pt_regs *ctx, struct thread *t, u64 cookie, u64 addr)
{
	u64 sp = REG_SP(ctx) + COOKIE_SP_DELTA(cookie);
	bool forwarded = t->forward_sp == sp && t->freed == addr && !COOKIE_MAY_FORWARD(cookie);

	t->freed = addr;
	t->forward_sp = COOKIE_MAY_FORWARD(cookie) ? sp : 0;
	return forwarded;
}

/*
 * A free that calls the one of another file to free the block, as those of preloaded counters
 * do: the second hit comes for the same block deeper in the stack, with no
 * allocation in between. Within one file it is another free of a block that was given out
 * unseen.
 */
static __always_inline bool is_inner(struct pt_regs *ctx, struct thread *t, u64 cookie, u64 addr)
{
	u64 sp = REG_SP(ctx) + COOKIE_SP_DELTA(cookie);
	u32 file = COOKIE_FILE(cookie);

	if (sp < t->free_sp && t->freed == addr && file != t->free_file && file && t->free_file)
		return true;
	t->free_sp = sp;
	t->free_file = file;
	return false;
}

static __always_inline void free_enter(struct self self, struct pt_regs *ctx, struct thread *t, u64 cookie)
{
	u64 addr = reg_value(ctx, COOKIE_REG(cookie, 0));

	if (!addr)
		return;
	if (is_nested(t, ctx)) {
		if (t->shape != SHAPE_RELEASE)
			t->hidden++;
		else if (COOKIE_SHAPE(cookie) != SHAPE_MUNMAP)
			free_block(self, t, addr, RECORD_NESTED);
		return;
	}
	if (COOKIE_SHAPE(cookie) == SHAPE_MUNMAP)
		munmap_enter(self, ctx, t, cookie, addr);
	else if (!is_inner(ctx, t, cookie, addr) && !is_forwarded(ctx, t, cookie, addr))
		free_block(self, t, addr, is_ending(ctx, t));
}

static __always_inline int at_alloc(struct pt_regs *ctx, bool has_loop)
{
	struct self self = get_self();
	struct thread *t;
	u64 cookie;

	keep_own_stack();
	t = thread_at_probe(self, ctx, &cookie);
	if (t)
		alloc_enter(self, ctx, t, cookie, NULL, has_loop);
	return 0;
}

static __always_inline int at_return(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;

	keep_own_stack();
	t = thread_find(self);
	if (t && has_returned(ctx, t))
		record_call(self, ctx, t, REG_RESULT(ctx));
	return 0;
}

static __always_inline int at_own_return(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;

	keep_own_stack();
	t = thread_find(self);
	if (can_sample && t)
		count_hit(self, HIT_EXIT, 1);
	if (!t || !has_exited(ctx, t))
		return 0;
	record_call(self, ctx, t, REG_RESULT(ctx));
	return 0;
}

static __always_inline int at_free(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;
	u64 cookie;

	keep_own_stack();
	t = thread_at_probe(self, ctx, &cookie);
	if (t)
		free_enter(self, ctx, t, cookie);
	return 0;
}

/* Perf-event uprobes: every kernel. */
SEC("uprobe/alloc")
int perf_alloc(struct pt_regs *ctx)
{
	return at_alloc(ctx, false);
}

SEC("uretprobe/alloc")
int perf_return(struct pt_regs *ctx)
{
	return at_return(ctx);
}

SEC("uprobe/own_return")
int perf_own_return(struct pt_regs *ctx)
{
	return at_own_return(ctx);
}

SEC("uprobe/free")
int perf_free(struct pt_regs *ctx)
{
	return at_free(ctx);
}

SEC("uprobe/mark")
int perf_mark(struct pt_regs *ctx)
{
	return at_mark(ctx);
}

/* uprobe_multi: 6.6. */
SEC("uprobe.multi/alloc")
int multi_alloc(struct pt_regs *ctx)
{
	return at_alloc(ctx, true);
}

SEC("uprobe.multi/return")
int multi_return(struct pt_regs *ctx)
{
	return at_return(ctx);
}

SEC("uprobe.multi/own_return")
int multi_own_return(struct pt_regs *ctx)
{
	return at_own_return(ctx);
}

SEC("uprobe.multi/free")
int multi_free(struct pt_regs *ctx)
{
	return at_free(ctx);
}

SEC("uprobe.multi/mark")
int multi_mark(struct pt_regs *ctx)
{
	return at_mark(ctx);
}

/*
 * uprobe session: 6.13. One program for entry and return; 1 from the entry
 * leaves the return out.
 */
SEC("uprobe.session/alloc")
int session_alloc(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct known_probe *k;
	enum entered entered;
	struct thread *t;
	u64 result;

	keep_own_stack();
	t = thread_find(self);
	k = t ? known_probe(t, REG_IP(ctx)) : NULL;
	if (!k && bpf_get_func_ip(ctx) != REG_IP(ctx)) {
		if (!t || !has_returned(ctx, t))
			return 0;
		result = REG_RESULT(ctx);
		if (t->predicted)
			check_prediction(t, result);
		relay_check(t);
	} else {
		if (!k) {
			k = thread_learn(self, ctx, &t);
			if (!k)
				return 1;
			predict_learn(self, ctx, t, k);
		}
		t->pending = 0;
		entered = alloc_enter(self, ctx, t, k->cookie, k, true);
		if (entered != PREDICTED)
			return entered != RETURN;
		result = t->predicted;
	}
	record_call(self, ctx, t, result);
	return 1;
}
