/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The unwinding tables, filled by tracer/unwind_*.go from .eh_frame.
 *
 *   spaces: process -> id and place of its layout
 *   segments: all layouts: a process's executable mappings, sorted, after a head
 *   tables: slot -> rows of one executable segment of one file (unwind/table.go)
 *   rules: number -> rule, shared by all tables
 *
 * A layout is never changed: a process whose mappings change gets another one.
 * Ids are not used twice, so what the PC cache holds of an old layout can't
 * match, and what is read while the tracer replaces something is noticed.
 */
#ifndef MEMTRACE_UNWIND_MAPS_H
#define MEMTRACE_UNWIND_MAPS_H

#include "maps.h"

#define MAX_SPACES 16384
#define MAX_TABLES 16384
#define MAX_RULES 16384
#define MAX_SEGMENTS 65536 /* of all processes */

/* How to find the canonical frame address; equal to tracer/unwind.Kind. */
enum rule_kind {
	RULE_NONE,   /* no row: try the frame pointer */
	RULE_SP,     /* sp + cfa */
	RULE_FP,     /* frame pointer + cfa */
	RULE_REG,    /* saved register reg + cfa */
	RULE_DEREF,  /* the word at saved register reg + cfa */
	RULE_PLT,    /* sp + 8, and 8 more from the param-th byte of a 16-byte PLT entry on */
	RULE_SIGNAL, /* a frame made by the kernel: all registers are in it */
	RULE_END,    /* the bottom of the stack */
	RULE_SWITCH, /* called on another stack: the frame pointer leads back */
};

struct unwind_rule {
	u8 kind;
	u8 reg;
	u8 from_fp; /* bit n: saved[n] counts from the frame pointer, not from the CFA */
	u8 param;
	s32 cfa;
	s16 saved[SAVED_REGS]; /* in words; 0: not saved */
	u32 pad;
};

struct unwind_segment {
	u64 start, end; /* of a head: start is the id, end the number of segments that follow */
	u64 offset;     /* of start, from the beginning of the table's text */
	u32 table;      /* 0: none */
	u32 serial;     /* of the table */
};

#define CHUNK_WORDS 64
struct table_chunk {
	u32 words[CHUNK_WORDS];
};

/* The words that a table begins with. */
enum table_word {
	TABLE_SERIAL,
	TABLE_PAGES, /* steps of 256 bytes */
	TABLE_DICT,  /* where the dictionary begins */
	TABLE_INDEX,
	TABLE_ROWS,
	TABLE_RARE,  /* rows whose rule is not in the dictionary */
	TABLE_RARES, /* how many */
	TABLE_HEAD,
};

#define BPF_F_INNER_MAP 4096 /* 5.10: inner arrays may differ in size */

struct unwind_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct table_chunk);
};

/*
 * One word, so that it is read whole: bits 0 to 21 the process, 22 to 37 the
 * place of the head, 38 to 63 the id. An element that the kernel gave to another process
 * meanwhile has another process in it.
 */
#define SPACE_TGID(s) ((u32)(s) & 0x3fffff)
#define SPACE_HEAD(s) ((u32)((s) >> 22) & 0xffff)
#define SPACE_ID(s) ((u32)((s) >> 38))

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SPACES);
	__type(key, u32);
	__type(value, u64);
} spaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SEGMENTS);
	__type(key, u32);
	__type(value, struct unwind_segment);
} segments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_TABLES);
	__type(key, u32);
	__array(values, struct unwind_table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RULES);
	__type(key, u32);
	__type(value, struct unwind_rule);
} rules SEC(".maps");

/*
 * Steps by PC, direct-mapped. The two words of an entry are written one after
 * the other: check makes sure that they belong together.
 */
#define PC_SLOTS_BITS 16
struct pc_entry {
	u64 where; /* bits 0 to 46 the address, 47 to 63 the id's lower 17 bits */
	u64 step;  /* bits 0 to 39 the step (unwind_step.h), 40 to 48 the rest of the id, 49 to 63 check */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PC_SLOTS_BITS);
	__type(key, u32);
	__type(value, struct pc_entry);
} pc_cache SEC(".maps");

/* When a process was last reported to have mappings that are not known. */
#define STALE_SLOTS 1024
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STALE_SLOTS);
	__type(key, u32);
	__type(value, u64);
} stale SEC(".maps");

/*
 * How many times more a process may be stopped where it runs code that is not
 * known, until the tracer knows it. Code that a compiler makes at run time
 * uses it up; what the tracer learns renews it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SPACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} stoppable SEC(".maps");

/*
 * Threads that were signalled for that, or because they have loaded code: each
 * with its process, and STOPPED_LOADING.
 */
#define STOPPED_LOADING (1U << 31)
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} stopped SEC(".maps");

/*
 * Where the mappings of the calling process are; 0: nowhere. A function of its own, so that the verifier
 * does not go through a walk once for each of the ways out of here.
 */
__attribute__((noinline)) u64 own_space(u32 tgid)
{
	u64 *word = bpf_map_lookup_elem(&spaces, &tgid), space;

	if (!word)
		return 0;
	space = *word;
	return SPACE_TGID(space) == tgid ? space : 0;
}

#endif
