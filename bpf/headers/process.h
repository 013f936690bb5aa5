/* SPDX-License-Identifier: GPL-2.0-only */
/* fork, exec and exit of the traced processes. */
#ifndef MEMTRACE_PROCESS_H
#define MEMTRACE_PROCESS_H

#include "emit.h"
#include "python.h"
#include "signal.h"
#include "thread.h"
#include "unwind_maps.h"

SEC("tp_btf/sched_process_fork")
int process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid, one = 1;
	u32 flags = 0;

	if (from == to || !bpf_map_lookup_elem(&targets, &from))
		return 0;
	at_untraced_child(parent, child);
	if (child->mm == parent->mm)
		flags = RECORD_SHARED_VM;
	else
		has_forked = true;
	if (follow)
		bpf_map_update_elem(&targets, &to, &one, BPF_ANY);
	inherit_interpreter(from, to);
	emit_urgent(get_self(), RECORD_FORK, 0, from, to, flags);
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
	t = thread_find(get_self());
	if (t) {
		t->sp = 0;
		t->stack_top = 0;
		forget_probes(t);
	}
	bpf_map_delete_elem(&spaces, &tgid); /* the mappings are others now */
	bpf_map_delete_elem(&interpreters, &tgid);
	emit_urgent(get_self(), RECORD_EXEC, 0, tgid, (u32)ctx[1], 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid, code;

	thread_forget(get_self()); /* also where another thread was the last one to be counted, and is through already */
	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	if (task->signal->live.counter > 0)
		return 0;
	code = task->signal->group_exit_code;
	if (!code)
		code = task->exit_code;
	bpf_map_delete_elem(&targets, &tgid);
	bpf_map_delete_elem(&spaces, &tgid);
	bpf_map_delete_elem(&interpreters, &tgid);
	emit_urgent(get_self(), RECORD_EXIT, 0, tgid, code, 0);
	return 0;
}

#endif
