/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is done where events come faster than the tracer takes them in.
 *
 * Whoever puts a record into a ring that is half full has blocks sampled from
 * then on: the tracer may stand still and can't. Only the tracer ends it, once the
 * rings have been nearly empty for a while (tracer/pressure.go); docs/overhead.md
 * has the rules.
 */
#ifndef MEMTRACE_PRESSURE_H
#define MEMTRACE_PRESSURE_H

#include "maps.h"

/* A state is the interval of samples, 0 where every block is recorded, and in its upper half the number of the phase. */
#define STATE_INTERVAL(state) ((u32)(state))
#define STATE_PHASE(state) ((state) >> 32)

static __always_inline struct pressure *pressure_place(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&pressures, &key);
}

/* The state now; 0: there was never pressure. */
static __always_inline u64 pressure(void)
{
	struct pressure *p = pressure_place();

	return p ? *(volatile u64 *)&p->state : 0;
}

/* A ring is half full. */
__attribute__((noinline)) int press(void)
{
	struct pressure *p = pressure_place();
	u64 was, is;

	if (!p || !press_interval)
		return 0;
	was = *(volatile u64 *)&p->state;
	if (STATE_INTERVAL(was))
		return 0;
	is = (STATE_PHASE(was) + 1) << 32 | press_interval;
	if (!has_atomics)
		*(volatile u64 *)&p->state = is;
	else if (__sync_val_compare_and_swap(&p->state, was, is) != was)
		return 0;
	p->began = bpf_ktime_get_ns();
	return 0;
}

#endif
