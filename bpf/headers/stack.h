/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Call stacks: by .eh_frame (unwind.h) or by frame pointers.
 *
 * At the return of an allocator call the registers are the caller's: ip is
 * the return address, sp and the frame pointer are those of the calling
 * frame. One read copies the top of the stack; the chain is then followed
 * inside the copy, which is far cheaper than a read per frame. Frames beyond
 * the copy are read one by one.
 */
#ifndef MEMTRACE_STACK_H
#define MEMTRACE_STACK_H

#include "emit.h"
#include "thread.h"
#include "unwind.h"

/* splitmix64's finaliser: every bit of the result depends on every bit of h. */
static __always_inline u64 mix(u64 h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

/*
 * Walk the chain of frame pointers from the frame that take_stack put into the
 * scratch space, into its stack record; returns the hash of the frames.
 */
__attribute__((noinline)) u64 walk(u64 hash)
{
	struct scratch *s = scratch_get();
	u64 sp, fp, ret, next;
	u32 n = 1, flags = 0;

	if (!s)
		return 0;
	sp = s->at.sp;
	fp = s->at.fp;
	s->len = 0;
	slide_window(sp); /* frame pointers lie above */
	s->stack.frames[0] = s->at.pc;
	hash = add_to_hash(hash, s->at.pc);
	for (u32 i = 1; i < MAX_FRAMES; i++) {
		/* Frames lie upwards; anything else is no frame pointer. */
		if (fp < sp || (fp & 7))
			break;
		if (i >= stack_depth) {
			flags = RECORD_TRUNCATED;
			break;
		}
		if (!read_word(s, fp, &next) || !read_word(s, fp + 8, &ret) || ret < 4096)
			break;
		s->stack.frames[i] = ret;
		hash = add_to_hash(hash, ret);
		n = i + 1;
		sp = fp + 16;
		fp = next;
	}
	s->stack.head.flags = flags;
	s->stack.head.aux = n;
	return hash;
}

static __always_inline bool send_stack(struct scratch *s, u64 id, u32 n)
{
	u32 cpu, bytes;
	u8 flags = s->stack.head.flags;
	void *ring = own_ring(&cpu);

	if (!ring)
		return false;
	fill_head(&s->stack.head, RECORD_STACK, id, cpu);
	s->stack.head.aux = n;
	s->stack.head.flags = flags;
	bytes = sizeof(struct record_head) + (n & 127) * 8;
	return bpf_ringbuf_output(ring, &s->stack, bytes, BPF_RB_NO_WAKEUP) == 0;
}

/* The program image is part of the id: after exec an address means other code. */
static __always_inline u64 image_seed(u32 tgid)
{
	u32 execs = 0;

	if (has_task_storage) {
		execs = ((struct task_struct *)bpf_get_current_task_btf())->self_exec_id;
	} else {
		struct task_struct *task = (void *)bpf_get_current_task();

		bpf_probe_read_kernel(&execs, sizeof(execs), __builtin_preserve_access_index(&task->self_exec_id));
	}
	return ((u64)execs << 32 | tgid) * 0x9fb21c651e98df25ULL;
}

/* The id of the calling thread's stack, sent to the tracer if it is new; 0: none. */
static __always_inline u64 take_stack(struct pt_regs *ctx, struct thread *t)
{
	struct scratch *s;
	u64 id, *slot;
	u32 n, key;

	if (!stack_depth)
		return 0;
	s = scratch_get();
	if (!s) {
		count_loss(LOSS_STACK_FULL);
		return 0;
	}
	s->at = (struct cursor){ .pc = REG_IP(ctx), .sp = REG_SP(ctx), .fp = REG_FP(ctx) };
	s->stack_top = t->stack_top;
	id = image_seed(bpf_get_current_pid_tgid() >> 32);
	if (by_tables) {
		keep_registers(s, ctx);
		id = unwind(id);
	} else {
		id = walk(id);
	}
	t->stack_top = s->stack_top;
	n = s->stack.head.aux;
	id = mix(id);
	if (!id)
		id = 1;
	key = id & (SEEN_SLOTS - 1);
	slot = bpf_map_lookup_elem(&seen, &key);
	if (slot && *slot == id)
		return id;
	if (!send_stack(s, id, n)) {
		count_loss(LOSS_STACK_FULL);
		return 0;
	}
	if (slot)
		*slot = id;
	return id;
}

#endif
