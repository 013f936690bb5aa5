/* SPDX-License-Identifier: GPL-2.0-only */
/* Records into the ring of this CPU. */
#ifndef MEMTRACE_EMIT_H
#define MEMTRACE_EMIT_H

#include "maps.h"

static __always_inline void *own_ring(u32 *cpu)
{
	*cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&rings, cpu);
}

/*
 * Wake the reader once, by the record that crosses the threshold: a wake-up
 * costs the target more than all the rest of a record.
 */
static __always_inline u64 wake_flag(void *ring, u32 bytes)
{
	u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	if (waiting >= wake_bytes && waiting - (bytes + 8) < wake_bytes)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

/*
 * The clock is read once the record has its place: so a reader that has read
 * a ring up to its end at time T has seen every record older than T, however
 * long a producer was preempted (tracer/merge.go builds on this).
 */
static __always_inline void fill_head(struct record_head *h, u32 kind, u64 addr, u32 cpu)
{
	u64 id = bpf_get_current_pid_tgid();

	h->time = bpf_ktime_get_ns();
	h->addr = addr;
	h->tgid = id >> 32;
	h->tid = id;
	h->aux = 0;
	h->cpu = cpu;
	h->kind = kind;
	h->flags = 0;
}

/* Reserve a record in this CPU's ring, or count its loss. */
#define RESERVE(ring, cpu, type)                                        \
	({                                                              \
		type *__r = NULL;                                       \
		ring = own_ring(&cpu);                                  \
		if (ring)                                               \
			__r = bpf_ringbuf_reserve(ring, sizeof(type), 0); \
		if (!__r)                                               \
			count_loss(LOSS_RING_FULL);                     \
		__r;                                                    \
	})

static __always_inline void emit_head(u32 kind, u64 addr, u32 aux, u32 flags, u32 tgid, u64 wake)
{
	struct record_head *h;
	void *ring;
	u32 cpu;

	h = RESERVE(ring, cpu, struct record_head);
	if (!h)
		return;
	fill_head(h, kind, addr, cpu);
	h->aux = aux;
	h->flags = flags;
	h->tgid = tgid;
	bpf_ringbuf_submit(h, wake ? wake : wake_flag(ring, sizeof(*h)));
}

#endif
