/* SPDX-License-Identifier: GPL-2.0-only */
/* What is recorded of a block that ends, or begins as another one ends. */
#ifndef MEMTRACE_BLOCK_H
#define MEMTRACE_BLOCK_H

#include "emit.h"
#include "leave.h"

/* A free, of a block that may have been recorded. */
static __always_inline void free_block(struct self self, struct thread *t, u64 addr, u32 flags)
{
	u32 interval = 0;

	if (!addr)
		return;
	if (can_sample) {
		count_hit(self, HIT_ENTRY, 1);
		if (!is_wanted(addr, &interval))
			return;
		if (t->latest == addr) {
			flags |= RECORD_TEMPORARY;
			t->latest = 0;
		}
		if (release_block(addr))
			flags |= RECORD_RELEASED;
	} else if (!is_taken(self, t, addr, &interval, &flags)) {
		return;
	}
	emit_head(self, RECORD_FREE, addr, interval, flags);
}

/* False: it is lost, which is counted. */
static __always_inline bool emit_realloc(struct self self, struct thread *t, u32 kind, u64 addr, u64 stack, u32 flags)
{
	struct place p;

	if (!reserve(self, &p))
		return false;
	fill_head(self, &p.record->alloc.head, addr);
	p.record->alloc.size = t->size;
	p.record->alloc.stack = stack;
	p.record->old = t->old;
	p.record->began = t->began;
	commit(self, &p, t->taken, kind, flags);
	return true;
}

#endif
