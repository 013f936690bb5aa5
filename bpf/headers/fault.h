/* SPDX-License-Identifier: GPL-2.0-only */
/* Page faults of the traced processes, from whichever source the kernel has. */
#ifndef MEMTRACE_FAULT_H
#define MEMTRACE_FAULT_H

#include "emit.h"
#include "thread.h"

static __always_inline bool is_target(struct self self)
{
	return bpf_map_lookup_elem(&targets, &self.tgid) != NULL;
}

/* The kernel's own rule for what to count and what is major: mm_account_fault. */
static __always_inline void fault_done(struct self self, u64 address, u32 flags, u32 result)
{
	if (!(flags & FAULT_FLAG_USER) || (result & (VM_FAULT_RETRY | VM_FAULT_ERROR)))
		return;
	emit_head(self, RECORD_FAULT, address, 0,
		  (result & VM_FAULT_MAJOR) || (flags & FAULT_FLAG_TRIED) ? RECORD_FAULT_MAJOR : 0);
}

SEC("kprobe/handle_mm_fault")
int fault_kprobe(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;

	if (!is_target(self))
		return 0;
	t = thread_get(self);
	if (!t)
		return 0;
	t->fault_address = KERNEL_ARG2(ctx);
	t->fault_flags = KERNEL_ARG3(ctx);
	return 0;
}

SEC("kretprobe/handle_mm_fault")
int fault_kretprobe(struct pt_regs *ctx)
{
	struct self self = get_self();
	struct thread *t;

	if (!is_target(self))
		return 0;
	t = thread_find(self);
	if (!t || !t->fault_flags)
		return 0;
	fault_done(self, t->fault_address, t->fault_flags, REG_RESULT(ctx));
	t->fault_flags = 0;
	return 0;
}

/* handle_mm_fault(vma, address, flags, regs) since 5.9; the result follows. */
SEC("fexit/handle_mm_fault")
int fault_fexit(u64 *ctx)
{
	struct self self = get_self();

	if (!is_target(self))
		return 0;
	fault_done(self, ctx[1], ctx[2], ctx[4]);
	return 0;
}

/*
 * A tracepoint fires before the fault is handled. Whether it was major shows
 * in the thread's own counter by the time of its next fault.
 */
static __always_inline void fault_begins(struct self self, u64 address)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	unsigned long majors = 0;
	struct thread *t;
	u32 flags = 0;

	t = thread_get(self);
	if (!t)
		return;
	bpf_probe_read_kernel(&majors, sizeof(majors), __builtin_preserve_access_index(&task->maj_flt));
	if (t->fault_address && majors != t->major_faults)
		flags = RECORD_PREV_FAULT_MAJOR;
	t->fault_address = address;
	t->major_faults = majors;
	emit_head(self, RECORD_FAULT, address, 0, flags);
}

SEC("tp_btf/page_fault_user")
int fault_raw_tracepoint(u64 *ctx)
{
	struct self self = get_self();

	if (is_target(self))
		fault_begins(self, ctx[0]);
	return 0;
}

SEC("tracepoint/exceptions/page_fault_user")
int fault_tracepoint(struct page_fault_tracepoint *ctx)
{
	struct self self = get_self();

	if (is_target(self))
		fault_begins(self, ctx->address);
	return 0;
}

#endif
