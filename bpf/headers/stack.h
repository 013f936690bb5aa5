/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Call stacks: by .eh_frame (unwind.h) or by frame pointers.
 *
 * At the return of an allocator call the registers are the caller's: ip is
 * the return address, sp and the frame pointer are those of the calling
 * frame. By frame pointers, one read copies the top of the stack; the chain is then followed
 * inside the copy, which is far cheaper than a read per frame. Frames beyond
 * the copy are read one by one.
 */
#ifndef MEMTRACE_STACK_H
#define MEMTRACE_STACK_H

#include "emit.h"
#include "thread.h"
#include "unwind.h"

/* Copy the stack from sp on; returns the bytes that the window holds. */
static __always_inline u32 read_window(struct scratch *s, struct thread *t, u64 sp)
{
	u32 len = WINDOW_BYTES;

	/* A read that runs off the stack's end faults, which costs 700 ns. */
	if (sp < t->stack_top && t->stack_top - sp < WINDOW_BYTES)
		len = (t->stack_top - sp) & 0xfff;
	if (len > WINDOW_BYTES)
		len = WINDOW_BYTES;
	if (bpf_probe_read_user(s->window, len, (void *)sp) == 0)
		return len;
	len = 4096 - (sp & 4095);
	if (len > WINDOW_BYTES)
		return 0;
	t->stack_top = sp + len;
	if (bpf_probe_read_user(s->window, len, (void *)sp) == 0)
		return len;
	return 0;
}

/* splitmix64's finaliser: every bit of the result depends on every bit of h. */
static __always_inline u64 mix(u64 h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

struct frame {
	u64 next;
	u64 ret;
};

static __always_inline bool read_frame(struct scratch *s, u64 base, u32 len, u64 fp, struct frame *f)
{
	u64 off = fp - base;

	if (off + sizeof(*f) <= len && off <= WINDOW_BYTES - sizeof(*f)) {
		u32 i = (off >> 3) & 511;

		if (i > WINDOW_WORDS - 2)
			return false;
		f->next = s->window[i];
		f->ret = s->window[i + 1];
		return true;
	}
	return bpf_probe_read_user(f, sizeof(*f), (void *)fp) == 0;
}

/* Walk the chain into s->stack; returns the number of frames. */
static __always_inline u32 walk(struct scratch *s, struct thread *t, struct pt_regs *ctx, u64 *hash)
{
	u64 sp = REG_SP(ctx), fp = REG_FP(ctx), h = *hash;
	u32 len = read_window(s, t, sp);
	u32 n = 1;
	struct frame f;

	s->stack.frames[0] = REG_IP(ctx);
	h = (h ^ REG_IP(ctx)) * 0x9fb21c651e98df25ULL;
	s->stack.head.flags = 0;
	for (u32 i = 1; i < MAX_FRAMES; i++) {
		/* Frames lie upwards; anything else is no frame pointer. */
		if (fp < sp || (fp & 7))
			break;
		if (i >= stack_depth) {
			s->stack.head.flags = RECORD_TRUNCATED;
			break;
		}
		if (!read_frame(s, REG_SP(ctx), len, fp, &f) || f.ret < 4096)
			break;
		s->stack.frames[i] = f.ret;
		h = (h ^ f.ret) * 0x9fb21c651e98df25ULL;
		h ^= h >> 32;
		n = i + 1;
		sp = fp + 16;
		fp = f.next;
	}
	*hash = h;
	return n;
}

/* The same by .eh_frame. */
static __always_inline u32 walk_by_tables(struct scratch *s, struct thread *t, struct pt_regs *ctx, u64 *hash)
{
	s->at = (struct cursor){ .pc = REG_IP(ctx), .sp = REG_SP(ctx), .fp = REG_FP(ctx) };
	keep_registers(s, ctx);
	s->stack_top = t->stack_top;
	*hash = unwind(*hash);
	t->stack_top = s->stack_top;
	return s->stack.head.aux;
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
	id = image_seed(bpf_get_current_pid_tgid() >> 32);
	n = by_tables ? walk_by_tables(s, t, ctx, &id) : walk(s, t, ctx, &id);
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
