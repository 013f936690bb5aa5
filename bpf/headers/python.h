/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The Python frames of the calling thread, from the interpreter's own chain.
 *
 * The tracer tells for each process with a CPython that it knows where things
 * lie (struct interpreter; tracer/python). The thread's state is that of the GIL's holder, or
 * what the thread has under the interpreter's key of thread-specific data. Either is
 * believed only if it names the calling thread: so a thread that runs without the GIL
 * gets its own frames, and never another one's.
 *
 * All that is read is the target's, and may be anything: each read is bounded, and so is their number.
 */
#ifndef MEMTRACE_PYTHON_H
#define MEMTRACE_PYTHON_H

#include "emit.h"
#include "reuse.h"
#include "thread.h"
#include "unwind.h"
#include <bpf/bpf_core_read.h>

/* Set by the tracer once a traced process has an interpreter: others cost one look at it. */
bool has_interpreters;

#define RECORD_PYTHON 67 /* the Python frames of the stack that follows it */
#define PYTHON_RUN 8    /* frames that are walked by one call */
#define PYTHON_CUT (1U << 31) /* of the number of frames: there are more */

enum python_entry {
	PYTHON_ENTERS_ALL,   /* each frame has a run of the evaluation loop of its own (to 3.10) */
	PYTHON_ENTERS_FLAG,  /* those that say so (3.11) */
	PYTHON_ENTERS_FRAME, /* what a frame of the loop itself lies outside of (from 3.12 on) */
};

/* Equal to FRAME_OWNED_BY_CSTACK of CPython 3.12 and 3.13. */
#define PYTHON_OWNED_BY_LOOP 3

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct interpreter);
} interpreters SEC(".maps");

/* A child has its parent's interpreter, until it executes another program. */
static __always_inline void inherit_interpreter(u32 parent, u32 child)
{
	struct interpreter *in = has_interpreters ? bpf_map_lookup_elem(&interpreters, &parent) : NULL;

	if (!in)
		return;
	bpf_map_update_elem(&interpreters, &child, in, BPF_ANY);
	in = bpf_map_lookup_elem(&interpreters, &child);
	if (in)
		in->generation = 0; /* its memory has no probe yet */
}

/* A code object is about to be freed in the process that the cookie names. */
SEC("uprobe.multi/code_freed")
int multi_code_freed(struct pt_regs *ctx)
{
	u32 tgid = probe_cookie(ctx);
	struct interpreter *in = bpf_map_lookup_elem(&interpreters, &tgid);

	if (in && in->generation)
		__sync_fetch_and_add(&in->generation, 1);
	return 0;
}

/* A word of what was read of a code object; byte is a multiple of 8. */
static __always_inline u64 code_word(struct python_scratch *p, u32 byte)
{
	u32 i = byte >> 3;

	BARRIER(i);
	return p->words[i & (PYTHON_WORDS - 1)];
}

static __always_inline u32 code_half(struct python_scratch *p, u32 byte)
{
	return code_word(p, byte) >> ((byte & 4) * 8);
}

/* A word of what was read of frames. */
static __always_inline u64 chunk_word(struct python_scratch *p, u64 byte)
{
	u64 i = byte >> 3;

	BARRIER(i);
	return p->chunk[i & (PYTHON_CHUNK_WORDS - 1)];
}

static __always_inline u32 chunk_half(struct python_scratch *p, u64 byte)
{
	return chunk_word(p, byte) >> ((byte & 4) * 8);
}

static __always_inline u32 chunk_byte(struct python_scratch *p, u64 byte)
{
	return chunk_word(p, byte) >> ((byte & 7) * 8) & 255;
}

/*
 * Read the frame at an address, and with it those that lie right before it, as its callers mostly do from 3.11 on. No page
 * but the frame's own is touched for their sake: the one before it may be none.
 */
static __always_inline bool read_chunk(struct interpreter *in, struct python_scratch *p, u64 at)
{
	u64 from = at, end = at + in->frame_bytes, bytes;

	if (at & 7)
		return false;
	if (in->chunked) {
		from = end - sizeof(p->chunk);
		if (from < (at & ~4095ULL))
			from = at & ~4095ULL;
	}
	bytes = end - from;
	BARRIER(bytes);
	if (bytes > sizeof(p->chunk))
		return false;
	if (bpf_probe_read_user(p->chunk, bytes, (void *)from))
		return false;
	p->from = from;
	p->reach = at - from;
	return true;
}

/* Whether state is that of the thread whose pointer is given. */
static __always_inline bool is_python_thread(struct interpreter *in, u64 state, u64 pointer)
{
	u64 id = 0;

	return state && read_user(state + in->thread_id, &id) && id == pointer;
}

/* The state of the calling thread; 0: it has none. */
static __always_inline u64 python_state(struct interpreter *in, u64 pointer)
{
	u64 state = 0, key = 0;

	if (in->current && read_user(in->current, &state) && is_python_thread(in, state, pointer))
		return state;
	/* Py_tss_t: whether it has a key, and the key. */
	if (!read_user(in->key, &key) || !(u32)key || key >> 32 >= in->keys)
		return 0;
	state = 0;
	if (!read_user(pointer + in->specific + (key >> 32) * 16, &state) || !is_python_thread(in, state, pointer))
		return 0;
	return state;
}

/* The innermost frame of a thread; 0: none. */
static __always_inline u64 python_innermost(struct interpreter *in, u64 state)
{
	u64 at = 0, frame = 0;

	if (!read_user(state + in->frame, &at) || !at)
		return 0;
	if (in->via == PYTHON_DIRECT)
		return at;
	return read_user(at + in->via, &frame) ? frame : 0;
}

/* Read what tells a code object from another one that has its address later on. */
static __always_inline void read_code(struct interpreter *in, struct python_scratch *p, struct python_code *c, u64 code)
{
	u32 bytes = in->code_bytes;

	c->lines = 0;
	c->others = 0;
	c->first_line = 0;
	c->code = code;
	BARRIER(bytes);
	if (code && bytes <= sizeof(p->words) && !bpf_probe_read_user(p->words, bytes, (void *)(code + in->code_from))) {
		c->lines = code_word(p, in->lines);
		c->first_line = code_half(p, in->first_line);
		c->others = code_word(p, in->file_name) ^ code_word(p, in->name) << 12;
		if (in->version)
			c->others ^= (u64)code_half(p, in->version) << 32;
	}
	c->hash = code ^ c->lines << 20 ^ c->others * 0x9fb21c651e98df25ULL ^ (u64)c->first_line << 44;
}

/*
 * What tells a frame's code object from others. It is not read again while no code object of the process has been freed since: so there can
 * be no other one at its address. A code object that a frame runs is not freed.
 */
static __always_inline struct python_code *python_code(struct interpreter *in, struct python_scratch *p, u32 tgid, u64 code)
{
	u32 i = (code >> 4 ^ code >> 12) & (PYTHON_CODES - 1);
	struct python_code *c;

	BARRIER(i);
	c = &p->codes[i & (PYTHON_CODES - 1)];
	if (!((c->code ^ code) | (c->generation ^ p->generation) | (c->tgid ^ tgid)) && p->generation)
		return c;
	read_code(in, p, c, code);
	c->generation = p->generation;
	c->tgid = tgid;
	return c;
}

/* Walk so many frames outwards from the scratch space's cursor; 0: there are no more. */
__attribute__((noinline)) int python_run(u32 tgid, u32 place)
{
	struct interpreter *in = bpf_map_lookup_elem(&interpreters, &tgid);
	struct scratch *s = scratch_at(place);
	struct python_scratch *p;

	if (!s || !in)
		return 0;
	p = &s->python;
	for (u32 i = 0; i < PYTHON_RUN; i++) {
		u32 n = p->frames;
		u64 at = p->at, off;
		struct python_frame *f;
		struct python_code *c;

		if (!at || n >= PYTHON_FRAMES)
			return 0;
		off = at - p->from;
		if ((off > p->reach || off & 7) && !read_chunk(in, p, at)) {
			p->cut = PYTHON_CUT;
			return 0;
		}
		off = at - p->from;
		BARRIER(n);
		f = &p->f[n & (PYTHON_FRAMES - 1)];
		p->at = chunk_word(p, off + in->previous);
		f->code = chunk_word(p, off + in->code);
		f->enters = in->entry == PYTHON_ENTERS_ALL;
		if (in->entry == PYTHON_ENTERS_FLAG)
			f->enters = chunk_byte(p, off + in->enters) & 1;
		f->owner = chunk_byte(p, off + in->owner);
		if (in->entry == PYTHON_ENTERS_FRAME && f->owner == PYTHON_OWNED_BY_LOOP) {
			f->enters = 1;
			f->code = 0;
			f->at = 0;
		} else if (in->last_is_index) {
			f->at = chunk_half(p, off + in->last);
		} else {
			f->at = chunk_word(p, off + in->last) - (f->code + in->instructions);
		}
		c = python_code(in, p, tgid, f->code);
		f->lines = c->lines;
		f->others = c->others;
		f->first_line = c->first_line;
		p->sum = add_frame(p->sum, frame_hash(c->hash ^ (u64)f->at << 7 ^ (u64)f->enters << 63));
		p->frames = n + 1;
	}
	return 1;
}

/* Put the Python frames of the calling thread into the scratch space. */
__attribute__((noinline)) int python_walk(u32 tgid, u64 pointer, u32 place)
{
	struct interpreter *in = bpf_map_lookup_elem(&interpreters, &tgid);
	struct scratch *s = scratch_at(place);
	u64 state;

	if (!s || !in)
		return 0;
	state = python_state(in, pointer);
	if (!state)
		return 0;
	s->python.at = python_innermost(in, state);
	s->python.from = ~0ULL;
	s->python.reach = 0;
	s->python.generation = *(volatile u64 *)&in->generation;
	for (u32 i = 0; i < PYTHON_FRAMES / PYTHON_RUN && python_run(tgid, place); i++)
		;
	if (s->python.at)
		s->python.cut = PYTHON_CUT;
	return 0;
}

/* The Python frames, where the process has any. They are a part of what tells stacks apart. */
static __always_inline void take_python(struct self self, struct scratch *s, u32 place)
{
	s->python.frames = 0;
	s->python.cut = 0;
	s->python.sum = 0;
#if defined(__TARGET_ARCH_x86)
	if (!has_task_storage || !*(volatile bool *)&has_interpreters || !bpf_core_field_exists(self.task->thread.fsbase))
		return;
	python_walk(self.tgid, self.task->thread.fsbase, place);
#endif
}

/* Send the Python frames of the stack with the id, ahead of it; false where there was no room. */
static __always_inline bool send_python(struct self self, struct scratch *s, u64 id)
{
	struct python_scratch *p = &s->python;
	void *ring;

	if (!p->frames)
		return true;
	ring = own_ringbuf(self);
	if (!ring)
		return false;
	fill_head(self, &p->head, id);
	p->head.aux = p->frames | p->cut;
	p->head.cpu = self.cpu;
	p->head.flags = 0;
	p->head.kind = RECORD_PYTHON;
	return bpf_ringbuf_output(ring, &p->head, sizeof(p->head) + ((p->frames - 1) & (PYTHON_FRAMES - 1)) * sizeof(p->f[0]) + sizeof(p->f[0]),
				  BPF_RB_NO_WAKEUP) == 0;
}

#endif
