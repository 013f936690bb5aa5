//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel half of memtrace: probes at the allocator's functions.
 *
 * One allocation is one event, made at the return of the outermost allocator
 * call; what the allocator calls inside is its own business and is hidden
 * (malloc in calloc, mmap in malloc). A free is one event, made before the
 * allocator runs, so that it precedes every reuse of the address.
 */
#include "emit.h"
#include "fault.h"
#include "maps.h"
#include "process.h"
#include "regs.h"
#include "stack.h"
#include "thread.h"

char LICENSE[] SEC("license") = "GPL";

/* Kept in the object's BTF, so that bpf2go generates their Go side. */
const struct record_realloc *unused_realloc __attribute__((unused));
const struct stack_record *unused_stack __attribute__((unused));
const struct table_chunk *unused_chunk __attribute__((unused));
const struct unwind_segment *unused_segment __attribute__((unused));
const enum table_word unused_word __attribute__((unused));
const enum loss unused_loss __attribute__((unused));

static __always_inline bool is_meant(u64 cookie)
{
	return (u32)(bpf_get_current_pid_tgid() >> 32) == COOKIE_TGID(cookie);
}

/* n × size as calloc computes it; an overflow makes the call fail anyway. */
static __always_inline u64 product(struct pt_regs *ctx, u64 cookie, u32 first)
{
	return reg_value(ctx, COOKIE_REG(cookie, first)) * reg_value(ctx, COOKIE_REG(cookie, first + 1));
}

static __always_inline void keep_arguments(struct thread *t, struct pt_regs *ctx, u64 cookie)
{
	u32 shape = COOKIE_SHAPE(cookie);

	t->shape = shape;
	switch (shape) {
	case SHAPE_CALLOC:
		t->size = product(ctx, cookie, 0);
		return;
	case SHAPE_REALLOC:
		t->old = reg_value(ctx, COOKIE_REG(cookie, 0));
		t->size = reg_value(ctx, COOKIE_REG(cookie, 1));
		t->began = bpf_ktime_get_ns();
		return;
	case SHAPE_REALLOCARRAY:
		t->old = reg_value(ctx, COOKIE_REG(cookie, 0));
		t->size = product(ctx, cookie, 1);
		t->began = bpf_ktime_get_ns();
		return;
	case SHAPE_POSIX_MEMALIGN:
		t->out = reg_value(ctx, COOKIE_REG(cookie, 0));
		t->size = reg_value(ctx, COOKIE_REG(cookie, 1));
		return;
	default:
		t->size = reg_value(ctx, COOKIE_REG(cookie, 0));
	}
}

/* The entry of an allocation; false where its return is of no interest. */
static __always_inline bool alloc_enter(struct pt_regs *ctx)
{
	u64 cookie = probe_cookie(ctx);
	struct thread *t;

	keep_own_stack();
	if (!is_meant(cookie))
		return false;
	t = thread_get();
	if (!t)
		return false;
	if (is_nested(t, ctx)) {
		t->hidden++;
		return false;
	}
	t->sp = REG_SP(ctx);
	t->hidden = 0;
	t->forward_sp = 0;
	keep_arguments(t, ctx, cookie);
	return true;
}

static __always_inline void emit_alloc(struct pt_regs *ctx, struct thread *t, u32 kind, u64 addr)
{
	u64 stack = take_stack(ctx, t);
	struct record_alloc *r;
	void *ring;
	u32 cpu;

	r = RESERVE(ring, cpu, struct record_alloc);
	if (!r)
		return;
	fill_head(&r->head, kind, addr, cpu);
	r->size = t->size;
	r->stack = stack;
	bpf_ringbuf_submit(r, wake_flag(ring, sizeof(*r)));
}

static __always_inline void emit_realloc(struct pt_regs *ctx, struct thread *t, u64 addr)
{
	u64 stack = take_stack(ctx, t);
	struct record_realloc *r;
	void *ring;
	u32 cpu, kind = RECORD_REALLOC;

	/* realloc(p, 0) frees p and returns NULL in glibc; with a size, NULL is failure. */
	if (!addr && (t->size || !t->old))
		kind = RECORD_REALLOC_FAILED;
	r = RESERVE(ring, cpu, struct record_realloc);
	if (!r)
		return;
	fill_head(&r->alloc.head, kind, addr, cpu);
	r->alloc.size = t->size;
	r->alloc.stack = stack;
	r->old = t->old;
	r->began = t->began;
	bpf_ringbuf_submit(r, wake_flag(ring, sizeof(*r)));
}

/* MAP_FAILED */
#define IS_ERROR(addr) ((u64)(addr) > -4096ULL)

static __always_inline void alloc_result(struct pt_regs *ctx, struct thread *t)
{
	u64 addr = REG_RESULT(ctx);

	switch (t->shape) {
	case SHAPE_REALLOC:
	case SHAPE_REALLOCARRAY:
		emit_realloc(ctx, t, addr);
		return;
	case SHAPE_MMAP:
		if (!IS_ERROR(addr))
			emit_alloc(ctx, t, RECORD_MMAP, addr);
		return;
	case SHAPE_POSIX_MEMALIGN:
		if ((u32)addr) {
			addr = 0;
		} else if (bpf_probe_read_user(&addr, sizeof(addr), (void *)t->out)) {
			count_loss(LOSS_READ_FAULT);
			return;
		}
	}
	emit_alloc(ctx, t, addr ? RECORD_ALLOC : RECORD_ALLOC_FAILED, addr);
}

static __always_inline void alloc_return(struct pt_regs *ctx)
{
	struct thread *t;

	keep_own_stack();
	t = thread_find();
	/* Returns of nested calls come at another stack pointer. */
	if (!t || !t->sp || REG_SP(ctx) != SP_AFTER_RETURN(t->sp))
		return;
	t->sp = 0;
	alloc_result(ctx, t);
}

static __always_inline void emit_munmap(u64 addr, u64 size)
{
	struct record_alloc *r;
	void *ring;
	u32 cpu;

	r = RESERVE(ring, cpu, struct record_alloc);
	if (!r)
		return;
	fill_head(&r->head, RECORD_MUNMAP, addr, cpu);
	r->size = size;
	r->stack = 0;
	bpf_ringbuf_submit(r, wake_flag(ring, sizeof(*r)));
}

/*
 * free unmaps a large block, which would look like the program's own munmap:
 * a free keeps no depth, as its return is not probed.
 */
static __always_inline void munmap_enter(struct pt_regs *ctx, struct thread *t, u64 cookie, u64 addr)
{
	u64 size = reg_value(ctx, COOKIE_REG(cookie, 1));

	if (t->freed - addr < size)
		t->freed = 0;
	else
		emit_munmap(addr, size);
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

static __always_inline void free_enter(struct pt_regs *ctx)
{
	u64 cookie = probe_cookie(ctx);
	struct thread *t;
	u64 addr;

	keep_own_stack();
	if (!is_meant(cookie))
		return;
	addr = reg_value(ctx, COOKIE_REG(cookie, 0));
	if (!addr)
		return;
	t = thread_get();
	if (!t)
		return;
	if (is_nested(t, ctx)) {
		t->hidden++;
		return;
	}
	if (COOKIE_SHAPE(cookie) == SHAPE_MUNMAP)
		munmap_enter(ctx, t, cookie, addr);
	else if (!is_forwarded(ctx, t, cookie, addr))
		emit_head(RECORD_FREE, addr, 0, 0, COOKIE_TGID(cookie), 0);
}

/* Perf-event uprobes: every kernel. */
SEC("uprobe/alloc")
int perf_alloc(struct pt_regs *ctx)
{
	alloc_enter(ctx);
	return 0;
}

SEC("uretprobe/alloc")
int perf_return(struct pt_regs *ctx)
{
	alloc_return(ctx);
	return 0;
}

SEC("uprobe/free")
int perf_free(struct pt_regs *ctx)
{
	free_enter(ctx);
	return 0;
}

/* uprobe_multi: 6.6. */
SEC("uprobe.multi/alloc")
int multi_alloc(struct pt_regs *ctx)
{
	alloc_enter(ctx);
	return 0;
}

SEC("uprobe.multi/return")
int multi_return(struct pt_regs *ctx)
{
	alloc_return(ctx);
	return 0;
}

SEC("uprobe.multi/free")
int multi_free(struct pt_regs *ctx)
{
	free_enter(ctx);
	return 0;
}

/*
 * uprobe session: 6.13. One program for entry and return; 1 from the entry
 * leaves the return out.
 */
SEC("uprobe.session/alloc")
int session_alloc(struct pt_regs *ctx)
{
	if (bpf_get_func_ip(ctx) != REG_IP(ctx)) {
		alloc_return(ctx);
		return 0;
	}
	return !alloc_enter(ctx);
}
