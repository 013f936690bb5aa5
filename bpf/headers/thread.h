/* SPDX-License-Identifier: GPL-2.0-only */
/* What a thread keeps between probes, and where it puts a stack together. */
#ifndef MEMTRACE_THREAD_H
#define MEMTRACE_THREAD_H

#include "maps.h"
#include "exit.h"
#include "self.h"

/*
 * Keep the program on the kernel stack of the thread it runs in.
 *
 * From 6.13 on the verifier may give tracing programs a private stack, one a
 * CPU. Uprobe programs can be preempted, and another thread's run on the same
 * CPU would then overwrite it: kernel 7.3 oopses within seconds. A program
 * that contains a tail call keeps the ordinary stack, even if, as here, it
 * can never be reached.
 */
static __always_inline void keep_own_stack(void)
{
	u64 never;

	asm volatile("%0 = 0" : "=r"(never));
	if (never)
		asm volatile("call 12" ::: "r0", "r1", "r2", "r3", "r4", "r5");
}

static __always_inline struct thread *thread_slot(struct self self)
{
	u32 key = self.tid & (THREAD_SLOTS - 1);

	if (!has_task_storage || !has_atomics)
		return NULL;
	return bpf_map_lookup_elem(&thread_slots, &key);
}

/* The state of a thread that holds no slot. */
static __always_inline struct thread *thread_elsewhere(struct self self)
{
	u64 key = SELF_KEY(self);

	if (has_task_storage)
		return bpf_task_storage_get(&threads, self.task, NULL, 0);
	return bpf_map_lookup_elem(&threads, &key);
}

static __always_inline struct thread *thread_find(struct self self)
{
	struct thread *t = thread_slot(self);

	if (t && t->owner == SELF_OWNER(self))
		return t;
	return thread_elsewhere(self);
}

/*
 * How a function of its own finds the calling thread: it takes numbers only, and each helper that it calls for what its caller
 * knows costs up to 40 ns. where: the CPU, and whether the thread holds a slot.
 */
#define IN_SLOT (1U << 31)
#define SELF_WHERE(self, t) ((self).cpu | ((t)->owner ? IN_SLOT : 0))

static __always_inline struct self same_self(u64 key, u32 where)
{
	return (struct self){ .tgid = key >> 32, .tid = key, .cpu = where & ~IN_SLOT };
}

static __always_inline struct thread *same_thread(struct self self, u32 where)
{
	if (where & IN_SLOT)
		return thread_slot(self);
	if (has_task_storage)
		self.task = (struct task_struct *)bpf_get_current_task_btf();
	return thread_elsewhere(self);
}

const struct thread fresh_thread = {}; /* too large for the stack */

static __always_inline struct thread *thread_new(struct self self)
{
	u64 key = SELF_KEY(self);

	if (has_task_storage)
		return bpf_task_storage_get(&threads, self.task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bpf_map_update_elem(&threads, &key, &fresh_thread, BPF_NOEXIST);
	return bpf_map_lookup_elem(&threads, &key);
}

/* One of the places in which the probe at ip may be. */
static __always_inline struct known_probe *probe_place(struct thread *t, u64 ip, u32 way)
{
	return &t->known[((ip >> 4) ^ way) & (KNOWN_PROBES - 1)];
}

/*
 * The probe at ip, without the calls that it takes to ask for its cookie; NULL:
 * the thread has not come there yet. That it has also tells an entry from a
 * return: no call lies before a probed instruction, so nothing returns to one.
 */
static __always_inline struct known_probe *known_probe(struct thread *t, u64 ip)
{
	for (u32 way = 0; way < KNOWN_WAYS; way++) {
		struct known_probe *k = probe_place(t, ip, way);

		if (k->ip == ip)
			return k;
	}
	return NULL;
}

/* Where it goes: to a place that is free, or to its first one. */
static __always_inline struct known_probe *new_probe(struct thread *t, u64 ip)
{
	for (u32 way = 0; way < KNOWN_WAYS; way++) {
		struct known_probe *k = probe_place(t, ip, way);

		if (!k->ip)
			return k;
	}
	return probe_place(t, ip, 0);
}

static __always_inline void forget_probes(struct thread *t)
{
	for (int i = 0; i < KNOWN_PROBES; i++)
		t->known[i].ip = 0;
	t->predictor.number = 0;
	t->predictor.is_off = false;
}

/* The slot for a thread that has no state yet, if nobody holds it. */
static __always_inline bool claim_slot(struct thread *t, struct self self)
{
	if (t->owner || __sync_val_compare_and_swap(&t->owner, 0, SELF_OWNER(self)))
		return false;
	t->sp = 0;
	t->by_exit = 0;
	t->stack_top = 0;
	t->walked_to = 0;
	t->fault_address = 0;
	t->fault_flags = 0;
	t->touching = 0;
	t->freed = 0;
	t->ending = 0;
	t->forward_sp = 0;
	t->free_sp = 0;
	t->interval = 0;
	t->random = 0;
	t->latest = 0;
	t->pending = 0;
	forget_probes(t);
	return true;
}

static __always_inline struct thread *thread_get(struct self self)
{
	struct thread *slot = thread_slot(self), *t;

	if (slot && slot->owner == SELF_OWNER(self))
		return slot;
	t = thread_elsewhere(self);
	if (t)
		return t;
	if (slot && claim_slot(slot, self))
		return slot;
	t = thread_new(self);
	if (!t)
		count_loss(LOSS_THREAD_STATE);
	return t;
}

/* Whether a hit of a probe is meant: of one process, or, in a file, of all those under trace. */
static __always_inline bool is_meant(struct self self, u64 cookie)
{
	u32 tgid = self.tgid;

	if (COOKIE_TGID(cookie))
		return tgid == COOKIE_TGID(cookie);
	return bpf_map_lookup_elem(&targets, &tgid);
}

/* A probe that the calling thread has not come to before, and the thread's state; NULL: not meant. */
static __always_inline struct known_probe *thread_learn(struct self self, struct pt_regs *ctx, struct thread **t)
{
	u64 cookie = probe_cookie(ctx);
	struct known_probe *k;

	if (!is_meant(self, cookie))
		return NULL;
	*t = thread_get(self);
	if (!*t)
		return NULL;
	k = new_probe(*t, REG_IP(ctx));
	k->ip = REG_IP(ctx);
	k->cookie = cookie;
	k->clean = 0;
	k->predictor = 0;
	k->relayed = 0;
	return k;
}

/* The state of the calling thread at the entry of a function; NULL: not meant. */
static __always_inline struct thread *thread_at_probe(struct self self, struct pt_regs *ctx, u64 *cookie)
{
	struct thread *t = thread_find(self);
	struct known_probe *k = t ? known_probe(t, REG_IP(ctx)) : NULL;

	if (!k)
		k = thread_learn(self, ctx, &t);
	/* Perf events, and uprobe_multi before 6.12, come to all processes of a memory: a vfork's child is not its parent. */
	else if (COOKIE_TGID(k->cookie) && COOKIE_TGID(probe_cookie(ctx)) != self.tgid)
		return NULL;
	if (!k)
		return NULL;
	t->pending = 0;
	*cookie = k->cookie;
	return t;
}

/* The calling thread is about to exit. */
static __always_inline void thread_forget(struct self self)
{
	struct thread *t = thread_find(self);
	u64 key = SELF_KEY(self);

	if (t) {
		if (t->sp && t->by_exit && t->shape != SHAPE_RELEASE)
			count_loss(LOSS_ABANDONED); /* another thread may have gone on with that call */
		t->owner = 0; /* of a slot */
	}
	if (!has_task_storage)
		bpf_map_delete_elem(&threads, &key);
}

/* The scratch space at a place that scratch_take gave. */
static __always_inline struct scratch *scratch_at(u32 place)
{
	return bpf_map_lookup_elem(&scratches, &place);
}

/*
 * A place of this CPU's that no preempted program holds. Kernels without
 * atomics run uprobes with preemption off.
 */
static __always_inline struct scratch *scratch_take(struct self self, u32 *place)
{
	struct scratch *s;

	for (u32 i = 0; i < SCRATCHES; i++) {
		*place = self.cpu * SCRATCHES + i;
		s = scratch_at(*place);
		if (!s)
			return NULL;
		if (!has_atomics || !__sync_lock_test_and_set(&s->taken, 1))
			return s;
	}
	return NULL;
}

static __always_inline void scratch_give(struct scratch *s)
{
	if (!has_atomics)
		return;
#if defined(__TARGET_ARCH_x86)
	*(volatile u32 *)&s->taken = 0; /* x86 makes stores seen in their order */
#else
	__sync_lock_test_and_set(&s->taken, 0);
#endif
}

/* More calls than this inside one allocator call: its return was missed. */
#define MAX_HIDDEN 64

/*
 * Whether the return address of the call in progress is still the kernel's
 * trampoline, which starts a page. If not, its frame is gone.
 */
static __always_inline bool returns_to_trampoline(struct thread *t, struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 word = 0;

	return bpf_probe_read_user(&word, sizeof(word), (void *)t->sp) == 0 && word && !(word & 4095);
#else
	/* The link register holds it only for a call at the same depth. */
	return REG_SP(ctx) != t->sp || !(ctx->regs[30] & 4095);
#endif
}

/*
 * Whether the call in progress of t encloses the one that begins now.
 *
 * The stack pointer tells most: an outer frame lies above an inner one, or is
 * the same if the outer function jumped to the inner (realloc(NULL) to malloc).
 * But a call that was left by longjmp or an exception never returned, and the
 * thread may have gone deeper since; a fresh call at the same depth has put
 * its own return address there.
 */
static __always_inline bool is_nested(struct thread *t, struct pt_regs *ctx)
{
	if (!t->sp)
		return false;
	if (REG_SP(ctx) <= t->sp && t->hidden < MAX_HIDDEN && (t->by_exit ? is_on_its_way(t, ctx) : returns_to_trampoline(t, ctx)))
		return true;
	t->sp = 0;
	if (!t->by_exit || t->shape != SHAPE_RELEASE) /* all of that has been recorded */
		count_loss(LOSS_ABANDONED);
	return false;
}

#endif
