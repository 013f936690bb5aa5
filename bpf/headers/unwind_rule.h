/* SPDX-License-Identifier: GPL-2.0-only */
/* From an address to its rule: the mappings, the rows. */
#ifndef MEMTRACE_UNWIND_RULE_H
#define MEMTRACE_UNWIND_RULE_H

#include "unwind_maps.h"

/* What find_rule returns besides the number of a rule. */
#define UNKNOWN_MAPPING 0xffffffu /* not an executable mapping that we know */
#define UNKNOWN_LAYOUT 0xfffffeu  /* the tracer replaced something meanwhile */
/* Keeps clang from trusting a bound that the verifier has lost, or from making a branch. */
#define BARRIER(x) asm volatile("" : "+r"(x))
/*
 * Has the verifier forget which of some values x has, so that it goes through what follows once and not once for each; other
 * is a number that it doesn't know.
 */
#define FORGET(x, other) asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(x) : "r"((u64)(other)))
#define IS_RULE(r) ((r) < MAX_RULES)

/* Word i of a table; where there is none, the caller returns. */
#define TABLE_WORD(table, i)                                             \
	({                                                               \
		u32 __i = (i), __key = __i / CHUNK_WORDS;                \
		struct table_chunk *__c = bpf_map_lookup_elem(table, &__key); \
		if (!__c)                                                \
			return 0;                                        \
		__c->words[__i % CHUNK_WORDS];                           \
	})

/* Row i: the low byte of its address, then the rule's place in the dictionary. */
#define TABLE_ROW(table, rows, i)                                        \
	({                                                               \
		u32 __row = (i);                                         \
		TABLE_WORD(table, (rows) + __row / 2) >> (__row % 2 * 16) & 0xffff; \
	})

/* Halve [low, high) at mid without a branch, which would double the verifier's work. */
#define BISECT(low, high, mid, upper)                                    \
	({                                                               \
		u64 __take = -(u64)(upper);                              \
		BARRIER(__take);                                         \
		low = (low & ~__take) | ((mid + 1) & __take);            \
		high = (high & __take) | (mid & ~__take);                \
	})

/* The rule of a row that is in the list of rare ones: pairs of row and rule. */
static __always_inline u32 rare_rule(void *table, u32 row)
{
	u32 low = 0, high = TABLE_WORD(table, TABLE_RARES), at = TABLE_WORD(table, TABLE_RARE);

	for (int i = 0; i < 24 && low < high; i++) {
		u32 mid = low + (high - low) / 2;
		u64 found = TABLE_WORD(table, at + 2 * mid);

		BISECT(low, high, mid, (found - row - 1) >> 63);
	}
	if (!low)
		return 0;
	return TABLE_WORD(table, at + 2 * low - 1);
}

/* The rule for the byte at offset of the table's text; 0: no row. */
__attribute__((noinline)) u32 row_rule(u32 slot, u32 serial, u64 offset)
{
	u32 page = offset >> 8, low, high, first, rows, code;
	void *table = bpf_map_lookup_elem(&tables, &slot);

	if (!table || TABLE_WORD(table, TABLE_SERIAL) != serial)
		return UNKNOWN_LAYOUT;
	if (offset >> 40 || page >= TABLE_WORD(table, TABLE_PAGES))
		return 0;
	first = TABLE_WORD(table, TABLE_INDEX) + page;
	low = TABLE_WORD(table, first);
	high = TABLE_WORD(table, first + 1);
	rows = TABLE_WORD(table, TABLE_ROWS);
	/* The last row at or before offset; it may lie on an earlier page. */
	for (int i = 0; i < 9 && low < high; i++) {
		u32 mid = low + (high - low) / 2;
		u64 row = TABLE_ROW(table, rows, mid) & 255;

		BISECT(low, high, mid, (row - (offset & 255) - 1) >> 63);
	}
	if (!low)
		return 0;
	code = TABLE_ROW(table, rows, low - 1) >> 8;
	if (code == 255)
		return rare_rule(table, low - 1);
	return TABLE_WORD(table, TABLE_WORD(table, TABLE_DICT) + code);
}

/* The rule for the address at in a layout. */
__attribute__((noinline)) u32 find_rule(u64 at, u32 head, u32 id)
{
	struct unwind_segment *seg = bpf_map_lookup_elem(&segments, &head);
	u32 low = head + 1, high;

	if (!id || !seg || seg->start != id)
		return UNKNOWN_LAYOUT;
	high = low + seg->end;
	for (int i = 0; i < 17 && low < high; i++) {
		u32 mid = low + (high - low) / 2;

		seg = bpf_map_lookup_elem(&segments, &mid);
		if (!seg)
			return UNKNOWN_LAYOUT;
		BISECT(low, high, mid, (seg->start - at - 1) >> 63);
	}
	low--;
	if (low == head)
		return UNKNOWN_MAPPING;
	seg = bpf_map_lookup_elem(&segments, &low);
	if (!seg || at >= seg->end)
		return UNKNOWN_MAPPING;
	if (!seg->table)
		return 0;
	return row_rule(seg->table, seg->serial, at - seg->start + seg->offset);
}

#endif
