/* SPDX-License-Identifier: GPL-2.0-only */
/* The calling thread. */
#ifndef MEMTRACE_SELF_H
#define MEMTRACE_SELF_H

#include "maps.h"

/*
 * Looked up once a program: where the kernel guards its returns against
 * speculation, each helper costs 15 to 40 ns.
 */
struct self {
	struct task_struct *task; /* where there is task storage */
	u32 tgid, tid;
	u32 cpu; /* at the beginning; the thread may be elsewhere by now */
};

static __always_inline struct self get_self(void)
{
	struct self self = { .cpu = bpf_get_smp_processor_id() };
	u64 id;

	if (has_task_storage) {
		self.task = (struct task_struct *)bpf_get_current_task_btf();
		self.tgid = self.task->tgid;
		self.tid = self.task->pid;
	} else {
		id = bpf_get_current_pid_tgid();
		self.tgid = id >> 32;
		self.tid = id;
	}
	return self;
}

#define SELF_KEY(self) ((u64)(self).tgid << 32 | (self).tid)

/* Tells a thread from all others, past ones with the same id too; never 0. */
#define SELF_OWNER(self) ((self).task->start_time << 22 | (self).tid)

#endif
