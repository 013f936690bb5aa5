/* SPDX-License-Identifier: GPL-2.0-only */
/* What records have in common. */
#ifndef MEMTRACE_EMIT_H
#define MEMTRACE_EMIT_H

#include "ring.h"

/*
 * The clock is read once the record has its place: so a reader that has read
 * a ring up to its end at time T has seen every record older than T, however
 * long a producer was preempted (tracer/merge.go builds on this).
 */
static __always_inline void fill_head(struct self self, struct record_head *h, u64 addr)
{
	h->time = bpf_ktime_get_ns();
	h->addr = addr;
	h->tgid = self.tgid;
	h->tid = self.tid;
}

/* An event that is all in its head. */
static __always_inline void emit_head(struct self self, u32 kind, u64 addr, u32 aux, u32 flags)
{
	struct place p;

	if (!reserve(self, &p))
		return;
	fill_head(self, &p.record->alloc.head, addr);
	commit(self, &p, aux, kind, flags);
}

/* An event with a size and a stack. */
static __always_inline void emit_sized(struct self self, u32 kind, u64 addr, u64 size, u64 stack, u32 aux, u32 flags)
{
	struct place p;

	if (!reserve(self, &p))
		return;
	fill_head(self, &p.record->alloc.head, addr);
	p.record->alloc.size = size;
	p.record->alloc.stack = stack;
	commit(self, &p, aux, kind, flags);
}

/* What the tracer must act on at once. */
static __always_inline void emit_urgent(struct self self, u32 kind, u64 addr, u32 tgid, u32 aux, u32 flags)
{
	void *ring = own_ringbuf(self);
	struct record_head *h = ring ? bpf_ringbuf_reserve(ring, sizeof(*h), 0) : NULL;

	if (!h) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_head(self, h, addr);
	h->tgid = tgid;
	h->aux = aux;
	h->cpu = self.cpu;
	h->kind = kind;
	h->flags = flags;
	bpf_ringbuf_submit(h, BPF_RB_FORCE_WAKEUP);
}

#endif
