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
#include "python.h"
#include "sample.h"
#include "thread.h"
#include "unwind.h"

/* The words at addr and after it. */
static __always_inline bool read_pair(struct scratch *s, u32 place, u64 addr, u64 *first, u64 *second)
{
	u64 word = window_word(s, addr);

	if (word >= s->words || word + 1 >= s->words) {
		if (slide_window(addr, place) || s->words < 2)
			return false;
		word = window_word(s, addr);
	}
	*first = s->window[word & (WINDOW_WORDS - 1)];
	*second = s->window[(word + 1) & (WINDOW_WORDS - 1)];
	return true;
}

static __always_inline u64 add_to_hash(u64 h, u64 pc)
{
	h = (h ^ pc) * 0x9fb21c651e98df25ULL;
	return h ^ h >> 32;
}

/*
 * Walk the chain of frame pointers from the frame that take_stack put into the
 * scratch space, into its stack record; returns the hash of the frames. A
 * function of its own, since inlined into a program it is more than the
 * verifier of 6.1 follows at depth 127.
 */
__attribute__((noinline)) u64 walk(u64 hash, u32 place)
{
	struct scratch *s = scratch_at(place);
	u64 sp, fp, ret, next;

	if (!s)
		return 0;
	sp = s->at.sp;
	fp = s->at.fp;
	s->stack.head.flags = 0;
	s->stack.head.aux = 1;
	s->stack.frames[0] = s->at.pc;
	hash = add_to_hash(hash, s->at.pc);
	for (u32 i = 1; i < MAX_FRAMES; i++) {
		/* Frames lie upwards, and not far; anything else is no frame pointer. */
		if (fp - sp > MAX_FP_FRAME || (fp & 7))
			break;
		if (i >= stack_depth) {
			s->stack.head.flags = RECORD_TRUNCATED;
			break;
		}
		if (!read_pair(s, place, fp, &next, &ret) || ret < 4096)
			break;
		s->stack.frames[i] = ret;
		s->stack.head.aux = i + 1;
		hash = add_to_hash(hash, ret);
		sp = fp + 16;
		fp = next;
	}
	s->at.sp = sp;
	return hash;
}

static __always_inline bool send_stack(struct self self, struct scratch *s, u64 id)
{
	void *ring = own_ringbuf(self);
	u32 bytes = sizeof(struct record_head) + (s->stack.head.aux & 127) * 8;
	/*
	 * The tracer is to read the names of Python code soon: code objects are freed, too. It can once it has both records. A
	 * wake-up by the first one could be over before the second is there.
	 */
	u64 wake = s->python.frames ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;

	if (!ring)
		return false;
	fill_head(self, &s->stack.head, id);
	s->stack.head.cpu = self.cpu;
	s->stack.head.kind = RECORD_STACK;
	return bpf_ringbuf_output(ring, &s->stack, bytes, wake) == 0;
}

/*
 * The program image is part of the id: after exec an address means other code. So is when the
 * process began: another may get its ID, and is sent its own stacks.
 */
static __always_inline u64 image_seed(struct self self)
{
	u64 began = 0;
	u32 execs = 0;

	if (has_task_storage) {
		execs = self.task->self_exec_id;
		began = self.task->group_leader->start_time;
	} else {
		struct task_struct *task = (void *)bpf_get_current_task();

		bpf_probe_read_kernel(&execs, sizeof(execs), __builtin_preserve_access_index(&task->self_exec_id));
	}
	return (((u64)execs << 32 | self.tgid) + began) * 0x9fb21c651e98df25ULL;
}

static __always_inline u64 *seen_slot(u64 id)
{
	u32 key = id & (SEEN_SLOTS - 1);

	return bpf_map_lookup_elem(&seen, &key);
}

/* Send a stack that is new; its id, or 0 where it could not be sent. */
__attribute__((noinline)) u64 send_new(u64 id, u32 place)
{
	struct scratch *s = scratch_at(place);
	struct self self = get_self();
	u64 *slot = seen_slot(id);

	if (!s)
		return 0;
	if (!send_python(self, s, id) || !send_stack(self, s, id)) {
		count_loss(LOSS_STACK_FULL);
		return 0;
	}
	if (slot)
		*slot = id;
	return id;
}

/* Send the stack unless the tracer has it; its id, or 0 where it could not be sent. */
static __always_inline u64 know_stack(u64 id, u32 place)
{
	u64 *slot = seen_slot(id);

	return slot && *slot == id ? id : send_new(id, place);
}

static __always_inline u64 stack_id(u64 hash)
{
	hash = mix(hash);
	return hash ? hash : 1;
}

/* The id of a stack that the tracer has and whose outer frames are the last one's; 0: none. */
static __always_inline u64 known_again(struct scratch *s, u32 tgid, u64 seed, u32 place)
{
	u64 sum = walk_again(s, tgid, place), id, *slot;

	if (!sum)
		return 0;
	id = stack_id(seed ^ sum ^ s->python.sum);
	slot = seen_slot(id);
	return slot && *slot == id ? id : 0;
}

static __always_inline u64 walk_whole(struct scratch *s, u32 tgid, u64 seed, u32 place)
{
	u64 hash = by_tables ? seed ^ unwind(tgid, place) : walk(seed, place);

	return know_stack(stack_id(hash ^ s->python.sum), place);
}

/* Begin at the caller of the function that a thread is about to enter; its return address is the window's first word. */
static __always_inline void begin_at_slot(struct scratch *s)
{
	u64 pc = 0;

	if (s->words)
		pc = s->window[0];
	else
		bpf_probe_read_user(&pc, sizeof(pc), (void *)s->at.sp);
	if (!(pc & 4095))
		pc = trampoline_target(s->at.sp, pc);
	s->at.pc = pc;
	s->at.sp = SP_AFTER_RETURN(s->at.sp);
}

/*
 * The id of the stack from the frame that take_stack put into the scratch space. A function of its own, so that the verifier
 * goes through it once, and not once for each state in which a program may come here.
 */
__attribute__((noinline)) u64 walk_stack(u32 tgid, u64 seed, u32 place)
{
	struct scratch *s = scratch_at(place);
	u64 id;

	if (!s)
		return 0;
	read_window(s, s->at.sp, expected_bytes(s, s->at.sp));
	if (!s->at.pc)
		begin_at_slot(s);
	if (by_tables) {
		s->from = s->at;
		id = known_again(s, tgid, seed, place);
		if (id)
			return id;
		s->at = s->from;
	}
	return walk_whole(s, tgid, seed, place);
}

/*
 * The id of the calling thread's stack from t->from on, sent to the tracer if it
 * is new; 0: none. The registers that a function saves for its caller are still the caller's.
 */
static __always_inline u64 take_stack(struct self self, struct pt_regs *ctx, struct thread *t)
{
	struct scratch *s;
	u32 place;
	u64 id;

	if (!stack_depth)
		return 0;
	s = scratch_take(self, &place);
	if (!s) {
		count_loss(LOSS_STACK_FULL);
		return 0;
	}
	s->at = t->from;
	s->stack_top = t->stack_top;
	s->reach = t->walked_to + LEAST_BYTES;
	if (by_tables)
		keep_registers(s, ctx);
	take_python(self, s, place);
	id = walk_stack(self.tgid, image_seed(self), place);
	t->stack_top = s->stack_top;
	t->walked_to = s->at.sp;
	scratch_give(s);
	return id;
}

#endif
