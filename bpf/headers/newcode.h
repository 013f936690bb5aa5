/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that a traced process loads while it runs.
 *
 * Its names, its unwinding tables and its allocator are to be known before it
 * runs. The loader calls an empty function for debuggers once it has mapped a
 * library and what that needs, before any code of theirs runs: its
 * constructors, and what chooses among its functions. A thread that is watched
 * by ptrace stands still there. For others the tracer is told, and hurries.
 */
#ifndef MEMTRACE_NEWCODE_H
#define MEMTRACE_NEWCODE_H

#include "emit.h"
#include "unwind.h"

static __always_inline int at_new_code(void)
{
	struct self self = get_self();

	if (bpf_map_lookup_elem(&targets, &self.tgid) && !hold_loader(self))
		emit_urgent(self, RECORD_MAPPED, 0, self.tgid, 0, 0);
	return 0;
}

SEC("uprobe/new_code")
int perf_new_code(struct pt_regs *ctx)
{
	return at_new_code();
}

SEC("uprobe.multi/new_code")
int multi_new_code(struct pt_regs *ctx)
{
	return at_new_code();
}

#endif
