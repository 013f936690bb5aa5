/* SPDX-License-Identifier: GPL-2.0-only */
/* A copy of a part of the stack, which a walk looks at. */
#ifndef MEMTRACE_WINDOW_H
#define MEMTRACE_WINDOW_H

#include "thread.h"

#define WINDOW_BYTES (WINDOW_WORDS * 8)

/* Let the window begin at addr and hold so many bytes; fewer, where there aren't as many. */
static __always_inline void read_window(struct scratch *s, u64 addr, u32 bytes)
{
	s->base = addr;
	s->words = 0;
	if (addr & 7)
		return;
	/* A read that runs off the stack's end faults, which costs 700 ns. */
	if (addr < s->stack_top && s->stack_top - addr < bytes)
		bytes = s->stack_top - addr;
	if (bytes > WINDOW_BYTES)
		bytes = WINDOW_BYTES;
	if (bpf_probe_read_user(s->window, bytes, (void *)addr)) {
		bytes = 4096 - (addr & 4095);
		if (bytes > WINDOW_BYTES) /* the first page itself is not there */
			return;
		s->stack_top = addr + bytes;
		if (bpf_probe_read_user(s->window, bytes, (void *)addr))
			return;
	}
	s->words = bytes / 8;
}

/*
 * How many bytes a walk at addr looks at: to copy a kilobyte that it does not costs as much as four frames, to find that
 * the window is too short even more. A thread's walks mostly end where the last one did; nobody knows how far one goes
 * beyond.
 */
#define LEAST_BYTES 64
#define UNKNOWN_BYTES 2048

static __always_inline u32 expected_bytes(struct scratch *s, u64 addr)
{
	u64 bytes = s->reach - addr;

	if (s->reach < addr + LEAST_BYTES)
		return UNKNOWN_BYTES;
	return bytes < WINDOW_BYTES ? bytes & ~7 : WINDOW_BYTES;
}

/* Let the window begin at addr; 0 means that it holds a word at least. */
__attribute__((noinline)) int slide_window(u64 addr, u32 place)
{
	struct scratch *s = scratch_at(place);

	if (!s)
		return 1;
	read_window(s, addr, expected_bytes(s, addr));
	return !s->words;
}

/*
 * Which word of the window lies at addr: none, if the number isn't below s->words, as it isn't where addr is no multiple of
 * 8. So one comparison tells, where each one more would have the verifier go through most of a loop's body again.
 */
static __always_inline u64 window_word(struct scratch *s, u64 addr)
{
	u64 off = addr - s->base;

	return off >> 3 | off << 61;
}

static __always_inline bool read_word(struct scratch *s, u32 place, u64 addr, u64 *to)
{
	u64 word = window_word(s, addr);

	if (word >= s->words) {
		if (slide_window(addr, place))
			return false;
		word = window_word(s, addr); /* 0, but for the verifier the same as without the slide */
	}
	*to = s->window[word & (WINDOW_WORDS - 1)];
	return true;
}

#endif
