/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rings that events travel through, one a CPU.
 *
 * The kernel's ring buffer takes a lock and five calls for a record, which is
 * more than all else that a probe does. Ours is a mapped array of lines of 64
 * bytes: the first has the position of the producers, the second that of the
 * reader, and each of the others holds a record. Programs may be preempted
 * between any two instructions, by others on the same CPU: so a place is taken
 * by compare-and-swap, and a record counts once its last word is written, in
 * which the lap through the ring tells it from what was there before.
 *
 * Kernels without atomics that return a value use the ring buffer, and so do
 * stacks and what the tracer must act on at once (emit.h).
 */
#ifndef MEMTRACE_RING_H
#define MEMTRACE_RING_H

#include "pressure.h"
#include "self.h"

/* The ring buffer of this CPU. */
static __always_inline void *own_ringbuf(struct self self)
{
	return bpf_map_lookup_elem(&rings, &self.cpu);
}

/* A record on its way. */
struct place {
	struct record_realloc *record;
	union ring_line *producer; /* NULL: the record is in a ring buffer */
	void *ring;
	u64 pos;
};

static __always_inline void refresh(void *ring, union ring_line *producer)
{
	u32 key = RING_READER;
	union ring_line *reader = bpf_map_lookup_elem(ring, &key);

	if (reader)
		producer->seen = *(volatile u64 *)&reader->pos;
}

/* How an attempt to take a line ended. */
enum attempt { LINE_TAKEN, RING_IS_FULL, LINE_LOST };

static __always_inline enum attempt try_line(void *ring, union ring_line *producer, u64 *pos)
{
	*pos = *(volatile u64 *)&producer->pos;
	/* Signed: seen may have gone past a pos that is out of date. */
	if ((s64)(*pos - producer->seen) >= (s64)ring_lines) {
		refresh(ring, producer);
		if ((s64)(*pos - producer->seen) >= (s64)ring_lines)
			return RING_IS_FULL;
	}
	return __sync_val_compare_and_swap(&producer->pos, *pos, *pos + 1) == *pos ? LINE_TAKEN : LINE_LOST;
}

#define NO_LINE (~0ULL)
#define MAX_ATTEMPTS 16

/*
 * Where a line has been lost to another program on the same CPU. A function of its own, as the verifier
 * would go through its loop at each place where a record is made, which took it most of its time.
 */
__attribute__((noinline)) u64 take_line_again(u32 cpu)
{
	union ring_line *producer;
	u32 key = RING_PRODUCER;
	enum attempt attempt;
	void *ring;
	u64 pos;

	if (!has_atomics) /* known to the verifier, which looks at this function with each program */
		return NO_LINE;
	ring = bpf_map_lookup_elem(&event_rings, &cpu);
	producer = ring ? bpf_map_lookup_elem(ring, &key) : NULL;
	if (!producer)
		return NO_LINE;
	for (int i = 0; i < MAX_ATTEMPTS; i++) {
		attempt = try_line(ring, producer, &pos);
		if (attempt != LINE_LOST)
			return attempt == LINE_TAKEN ? pos : NO_LINE;
	}
	return NO_LINE;
}

/* Take the next line; false where the ring is full. */
static __always_inline bool take_line(struct self self, struct place *p)
{
	enum attempt attempt = try_line(p->ring, p->producer, &p->pos);

	if (attempt == LINE_LOST) {
		p->pos = take_line_again(self.cpu);
		return p->pos != NO_LINE;
	}
	return attempt == LINE_TAKEN;
}

static __always_inline bool reserve_line(struct self self, struct place *p)
{
	u32 key = RING_PRODUCER;

	p->ring = bpf_map_lookup_elem(&event_rings, &self.cpu);
	if (!p->ring)
		return false;
	p->producer = bpf_map_lookup_elem(p->ring, &key);
	if (!p->producer || !take_line(self, p))
		return false;
	key = RING_RECORDS + (p->pos & (ring_lines - 1));
	p->record = bpf_map_lookup_elem(p->ring, &key);
	return p->record != NULL;
}

/* Reserve a record in this CPU's ring, or count its loss. */
static __always_inline bool reserve(struct self self, struct place *p)
{
	bool ok;

	if (has_atomics) {
		ok = reserve_line(self, p);
	} else {
		p->producer = NULL;
		p->pos = 0; /* the verifier of 5.10 minds where a compiler copies what nobody set, and nobody reads */
		p->ring = own_ringbuf(self);
		p->record = p->ring ? bpf_ringbuf_reserve(p->ring, sizeof(*p->record), 0) : NULL;
		ok = p->record != NULL;
	}
	if (!ok)
		count_loss(LOSS_RING_FULL);
	return ok;
}

/*
 * Wake the reader once, by the record that crosses the threshold: a wake-up
 * costs the target more than all the rest of a record.
 */
static __always_inline u64 wake_flag(void *ring, u32 bytes)
{
	u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	if (waiting >= press_bytes)
		press();
	if (waiting >= wake_bytes && waiting - (bytes + 8) < wake_bytes)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

/* It sleeps on the ring buffers: one of them gets a record that nobody reads. */
static __always_inline void wake_reader(struct self self)
{
	void *ring = own_ringbuf(self), *nothing;

	if (!ring)
		return;
	nothing = bpf_ringbuf_reserve(ring, 8, 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void commit_line(struct self self, struct place *p, u64 last)
{
	u64 lap = (p->pos >> ring_bits) + 1, *word = (u64 *)&p->record->alloc.head.aux;
	s64 waiting; /* of a program that was preempted, others' records behind it may have been read by now */

	last |= (lap & 0xffff) << 32;
#if defined(__TARGET_ARCH_x86)
	asm volatile("" ::: "memory");
	*(volatile u64 *)word = last; /* x86 makes stores seen in their order */
#else
	__sync_lock_test_and_set(word, last);
#endif
	waiting = p->pos + 1 - p->producer->seen;
	if (waiting < (s64)wake_lines)
		return;
	refresh(p->ring, p->producer);
	waiting = p->pos + 1 - p->producer->seen;
	if (waiting == (s64)wake_lines)
		wake_reader(self);
	if (waiting >= (s64)press_lines)
		press();
}

/* The record is whole but for its last word. */
static __always_inline void commit(struct self self, struct place *p, u32 aux, u32 kind, u32 flags)
{
	struct record_head *h = &p->record->alloc.head;

	if (has_atomics) {
		commit_line(self, p, (u64)kind << 48 | (u64)flags << 56 | aux);
		return;
	}
	h->aux = aux;
	h->cpu = self.cpu;
	h->kind = kind;
	h->flags = flags;
	bpf_ringbuf_submit(p->record, wake_flag(p->ring, sizeof(*p->record)));
}

#endif
