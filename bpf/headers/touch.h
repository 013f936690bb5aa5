/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who touches a page first: page faults with the stack of the thread, for traces without
 * a probe on the allocator, or while the allocator has none (touch_in_turns). They need
 * bpf_task_pt_regs (5.15).
 */
#ifndef MEMTRACE_TOUCH_H
#define MEMTRACE_TOUCH_H

#include "fault.h"
#include "stack.h"

/* Addresses of the kernel's own have this bit. */
#define KERNEL_HALF (1ULL << 63)

/* exceptions:page_fault_user as a BTF tracepoint: the processor's error code. */
#define FAULT_CODE_MAPPED 1
#define FAULT_CODE_WRITE 2

/* One fault of so many has its time taken: they are rarer than calls. */
#define TIME_TOUCHES 16

/* Whether faults have stacks now; else these programs do what those of fault.h do. */
static __always_inline bool takes_stacks(void)
{
	u32 key = SAMPLING_TOUCH, *on;

	if (!touch_in_turns)
		return true;
	on = bpf_map_lookup_elem(&sampling, &key);
	return on && *(volatile u32 *)on;
}

/* The stack that the thread had in user mode, also where the kernel touches memory for it; 0: none. */
static __always_inline u64 touch_stack(struct self self, struct thread *t)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 pc = REG_IP(regs), stack;

	if (!pc) /* a worker of the kernel's that never was in user mode */
		return 0;
	/* As for a frame that a signal struck: less one, it lies in the instruction. */
	t->call_from = t->from;
	t->from = (struct cursor){ .pc = pc + 1, .sp = REG_SP(regs), .fp = REG_FP(regs) };
	stack = take_stack(self, regs, t);
	t->from = t->call_from;
	return stack;
}

/*
 * What is not a part of taking a stack has frames of its own: the one from which that is taken has 128 bytes at most,
 * as kernels without private stacks (before 6.13) give a program and all that it calls 512.
 */
static __noinline void count_touch(u64 began)
{
	struct self self = get_self();

	count_hit(self, HIT_TOUCH, 1);
	if (!began)
		return;
	count_hit(self, HIT_TOUCH_TIMED, 1);
	count_hit(self, HIT_TOUCH_NS, bpf_ktime_get_ns() - began);
}

/*
 * Record a touch. To read the stack can fault itself, where a page of that is not there: such a fault
 * is not resolved, is no touch, and would begin the next read of the stack, and so on without end.
 */
static __always_inline void touch(struct self self, struct thread *t, u64 address, u32 flags)
{
	u64 stack;

	t->touching = 1;
	if (can_sample)
		t->touch_began = t->touches++ % TIME_TOUCHES ? 0 : bpf_ktime_get_ns();
	stack = touch_stack(self, t);
	emit_sized(self, RECORD_FAULT, address, 0, stack, 0, RECORD_TOUCH | flags);
	t->touching = 0;
	if (can_sample)
		count_touch(t->touch_began);
}

/* A fault that the kernel has handled; flags are those of handle_mm_fault. */
static __always_inline void touch_done(struct self self, struct thread *t, u64 address, u32 flags, u32 result)
{
	u32 told = 0;

	if (!takes_stacks()) {
		fault_done(self, address, flags, result);
		return;
	}
	if ((flags & FAULT_FLAG_REMOTE) || (result & (VM_FAULT_RETRY | VM_FAULT_ERROR)))
		return;
	if ((result & VM_FAULT_MAJOR) || (flags & FAULT_FLAG_TRIED))
		told |= RECORD_FAULT_MAJOR;
	if (flags & FAULT_FLAG_WRITE)
		told |= RECORD_TOUCH_WRITE;
	if (!(flags & FAULT_FLAG_USER))
		told |= RECORD_TOUCH_KERNEL;
	touch(self, t, address, told);
}

SEC("kprobe/handle_mm_fault")
int touch_kprobe(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;

	if (!is_target(self))
		return 0;
	t = thread_get(self);
	if (!t || t->touching)
		return 0;
	t->fault_address = KERNEL_ARG2(ctx);
	t->fault_flags = KERNEL_ARG3(ctx) | FAULT_PENDING;
	return 0;
}

SEC("kretprobe/handle_mm_fault")
int touch_kretprobe(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;
	u32 flags;

	keep_own_stack();
	if (!is_target(self))
		return 0;
	t = thread_find(self);
	if (!t || t->touching || !t->fault_flags)
		return 0;
	flags = t->fault_flags & ~FAULT_PENDING;
	t->fault_flags = 0;
	touch_done(self, t, t->fault_address, flags, REG_RESULT(ctx));
	return 0;
}

SEC("fexit/handle_mm_fault")
int touch_fexit(u64 *ctx)
{
	struct self self = get_self();
	struct thread *t;

	keep_own_stack();
	if (!is_target(self))
		return 0;
	t = thread_get(self);
	if (t && !t->touching)
		touch_done(self, t, ctx[1], ctx[2], ctx[4]);
	return 0;
}

/* A fault that has no stack now. */
static __noinline void plain_begins(u64 address)
{
	fault_begins(get_self(), address);
}

/* A fault that the kernel is about to handle; code is the processor's. See fault_begins. */
static __always_inline void touch_begins(struct self self, u64 address, u64 code, u32 told)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct thread *t;
	u64 majors;

	if ((address & KERNEL_HALF) || !is_target(self))
		return;
	if (!takes_stacks()) {
		if (!(told & RECORD_TOUCH_KERNEL))
			plain_begins(address);
		return;
	}
	t = thread_get(self);
	if (!t || t->touching)
		return;
	majors = t->major_faults;
	bpf_probe_read_kernel(&t->major_faults, sizeof(t->major_faults), __builtin_preserve_access_index(&task->maj_flt));
	if (t->fault_address && majors != t->major_faults)
		told |= RECORD_PREV_FAULT_MAJOR;
	t->fault_address = address;
	if (code & FAULT_CODE_WRITE)
		told |= RECORD_TOUCH_WRITE;
	if (code & FAULT_CODE_MAPPED)
		told |= RECORD_TOUCH_MAPPED;
	touch(self, t, address, told);
}

SEC("tp_btf/page_fault_user")
int touch_raw_tracepoint(u64 *ctx)
{
	keep_own_stack();
	touch_begins(get_self(), ctx[0], ctx[2], 0);
	return 0;
}

/* The kernel touches a process's memory for it: read(2) into a buffer that is new. */
SEC("tp_btf/page_fault_kernel")
int touch_kernel_raw_tracepoint(u64 *ctx)
{
	keep_own_stack();
	touch_begins(get_self(), ctx[0], ctx[2], RECORD_TOUCH_KERNEL);
	return 0;
}

SEC("tracepoint/exceptions/page_fault_user")
int touch_tracepoint(struct page_fault_tracepoint *ctx)
{
	keep_own_stack();
	touch_begins(get_self(), ctx->address, ctx->error_code, 0);
	return 0;
}

SEC("tracepoint/exceptions/page_fault_kernel")
int touch_kernel_tracepoint(struct page_fault_tracepoint *ctx)
{
	keep_own_stack();
	touch_begins(get_self(), ctx->address, ctx->error_code, RECORD_TOUCH_KERNEL);
	return 0;
}

#endif
