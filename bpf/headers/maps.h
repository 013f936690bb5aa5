/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MEMTRACE_MAPS_H
#define MEMTRACE_MAPS_H

#include "record.h"
#include <bpf/bpf_helpers.h>

/* Set by the tracer before loading. */
const volatile u64 fixed_cookie = 0;      /* kernels before 5.15: one program a probe */
const volatile bool has_task_storage = true; /* 5.12 */
const volatile u32 stack_depth = 64;      /* frames; 0 takes no stacks */
const volatile u32 wake_bytes = 256 << 10;
const volatile bool follow = true;

#define MAX_FRAMES 127
#define WINDOW_WORDS 384 /* 3 KiB of stack, with the frames under one 4 KiB slab object */

/* What a thread's allocator call in progress left for its return. */
struct thread {
	u64 sp;    /* at the entry of the outermost call; 0: none in progress */
	u64 size;
	u64 old;   /* realloc */
	u64 out;   /* posix_memalign: where the address goes */
	u64 began; /* realloc: ns */
	u64 stack_top;
	u64 fault_address;
	unsigned long major_faults;
	u32 shape;
	u32 hidden;      /* calls nested in the one in progress */
	u32 fault_flags;
	u32 pad;
};

struct stack_record {
	struct record_head head;
	u64 frames[MAX_FRAMES + 1];
};

struct scratch {
	u64 window[WINDOW_WORDS];
	struct stack_record stack;
};

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

/* One ring a CPU: a ring that CPUs share costs ten times as much. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* The tracer turns both into plain maps where a kernel has no task storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Processes under trace, for the probes that the kernel cannot scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u32);
} targets SEC(".maps");

/*
 * Ids of stacks already sent, direct-mapped: two stacks that share a slot are
 * sent again and again, never confused.
 */
#define SEEN_SLOTS (1 << 16)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_SLOTS);
	__type(key, u32);
	__type(value, u64);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_CAUSES);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps");

/* Programs may be preempted by others on the same CPU: hence the atomic add. */
static __always_inline void count_loss(u32 cause)
{
	u64 *n = bpf_map_lookup_elem(&losses, &cause);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline u64 probe_cookie(void *ctx)
{
	if (fixed_cookie)
		return fixed_cookie;
	return bpf_get_attach_cookie(ctx);
}

#endif
