/* SPDX-License-Identifier: GPL-2.0-only */
/* fork, exec and exit of the traced processes. */
#ifndef MEMTRACE_PROCESS_H
#define MEMTRACE_PROCESS_H

#include "emit.h"
#include "thread.h"
#include "unwind_maps.h"

/* These are rare and the tracer must act on them: it is woken at once. */
static __always_inline void emit_life(u32 kind, u32 tgid, u32 aux, u32 flags)
{
	emit_head(kind, 0, aux, flags, tgid, BPF_RB_FORCE_WAKEUP);
}

SEC("tp_btf/sched_process_fork")
int process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid, one = 1;
	u32 flags = 0;

	if (from == to || !bpf_map_lookup_elem(&targets, &from))
		return 0;
	if (child->mm == parent->mm)
		flags = RECORD_SHARED_VM;
	if (follow)
		bpf_map_update_elem(&targets, &to, &one, BPF_ANY);
	emit_life(RECORD_FORK, from, to, flags);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int process_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid;
	struct thread *t;

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	t = thread_find();
	if (t) {
		t->sp = 0;
		t->stack_top = 0;
	}
	bpf_map_delete_elem(&spaces, &tgid); /* the mappings are others now */
	emit_life(RECORD_EXEC, tgid, (u32)ctx[1], 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid, code;
	u64 key = bpf_get_current_pid_tgid();

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	if (!has_task_storage)
		bpf_map_delete_elem(&threads, &key);
	if (task->signal->live.counter > 0)
		return 0;
	code = task->signal->group_exit_code;
	if (!code)
		code = task->exit_code;
	bpf_map_delete_elem(&targets, &tgid);
	bpf_map_delete_elem(&spaces, &tgid);
	emit_life(RECORD_EXIT, tgid, code, 0);
	return 0;
}

#endif
