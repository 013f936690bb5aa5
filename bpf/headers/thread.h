/* SPDX-License-Identifier: GPL-2.0-only */
/* Per-thread state, kept in task storage or, before 5.12, in a hash. */
#ifndef MEMTRACE_THREAD_H
#define MEMTRACE_THREAD_H

#include "maps.h"
#include "regs.h"

/*
 * Keep the program on the kernel stack of the thread it runs in.
 *
 * From 6.13 on the verifier may give tracing programs a private stack, one a
 * CPU. Uprobe programs can be preempted, and another thread's run on the same
 * CPU would then overwrite it: kernel 7.3 oopses within seconds. A program
 * that contains a tail call keeps the ordinary stack, even if, as here, it
 * can never be reached.
 */
static __always_inline void keep_own_stack(void)
{
	u64 never;

	asm volatile("%0 = 0" : "=r"(never));
	if (never)
		asm volatile("call 12" ::: "r0", "r1", "r2", "r3", "r4", "r5");
}

static __always_inline struct thread *thread_find(void)
{
	u64 key;

	if (has_task_storage)
		return bpf_task_storage_get(&threads, (struct task_struct *)bpf_get_current_task_btf(), NULL, 0);
	key = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&threads, &key);
}

static __always_inline struct thread *thread_get(void)
{
	struct thread fresh = {};
	struct thread *t;
	u64 key;

	if (has_task_storage) {
		t = bpf_task_storage_get(&threads, (struct task_struct *)bpf_get_current_task_btf(), NULL,
					 BPF_LOCAL_STORAGE_GET_F_CREATE);
	} else {
		key = bpf_get_current_pid_tgid();
		t = bpf_map_lookup_elem(&threads, &key);
		if (!t) {
			bpf_map_update_elem(&threads, &key, &fresh, BPF_NOEXIST);
			t = bpf_map_lookup_elem(&threads, &key);
		}
	}
	if (!t)
		count_loss(LOSS_THREAD_STATE);
	return t;
}

/*
 * Task storage because programs of uprobe_multi may be preempted and others
 * run on the same CPU; where it is missing, uprobes run with preemption off
 * and a per-CPU buffer serves.
 */
static __always_inline struct scratch *scratch_get(void)
{
	u32 zero = 0;

	if (has_task_storage)
		return bpf_task_storage_get(&scratches, (struct task_struct *)bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);
	return bpf_map_lookup_elem(&scratches, &zero);
}

/* More calls than this inside one allocator call: its return was missed. */
#define MAX_HIDDEN 64

/*
 * Whether the return address of the call in progress is still the kernel's
 * trampoline, which starts a page. If not, its frame is gone.
 */
static __always_inline bool returns_to_trampoline(struct thread *t, struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 word = 0;

	return bpf_probe_read_user(&word, sizeof(word), (void *)t->sp) == 0 && word && !(word & 4095);
#else
	/* The link register holds it only for a call at the same depth. */
	return REG_SP(ctx) != t->sp || !(ctx->regs[30] & 4095);
#endif
}

/*
 * Whether the call in progress of t encloses the one that begins now.
 *
 * The stack pointer tells most: an outer frame lies above an inner one, or is
 * the same if the outer function jumped to the inner (realloc(NULL) to malloc).
 * But a call that was left by longjmp or an exception never returned, and the
 * thread may have gone deeper since; a fresh call at the same depth has put
 * its own return address there.
 */
static __always_inline bool is_nested(struct thread *t, struct pt_regs *ctx)
{
	if (!t->sp)
		return false;
	if (REG_SP(ctx) <= t->sp && t->hidden < MAX_HIDDEN && returns_to_trampoline(t, ctx))
		return true;
	t->sp = 0;
	count_loss(LOSS_ABANDONED);
	return false;
}

#endif
