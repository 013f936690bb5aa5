/* SPDX-License-Identifier: GPL-2.0-only */
/* From an address to the step outwards: its rule in one word, and the cache of those. */
#ifndef MEMTRACE_UNWIND_STEP_H
#define MEMTRACE_UNWIND_STEP_H

#include "unwind_rule.h"

/*
 * A step: bits 0 to 13 the number of the rule, 14 to 16 flags, 17 to 32 the
 * distance of the CFA in words, 33 to 39 (signed) that of the saved frame
 * pointer from the CFA, in words. The distances are those of a common step;
 * any other one needs the rule itself.
 */
#define STEP_RULE(step) ((u32)(step) & (MAX_RULES - 1))
#define STEP_COMMON (1 << 14)
#define STEP_FROM_FP (1 << 15) /* the CFA counts from the frame pointer, else from the stack pointer */
#define STEP_END (1 << 16)     /* the bottom of the stack */
#define STEP_CFA(step) (((step) >> 17 & 0xffff) * 8)
#define STEP_SAVED(step) ((s64)((step) << 24) >> 57)
#define STEP_MASK ((1ULL << 40) - 1)
#define STEP_UNKNOWN (~0ULL) /* in no mapping that we know, or the tracer replaced something meanwhile */

#if defined(__TARGET_ARCH_x86)
/* The return address lies below the CFA. */
#define HAS_COMMON_RETURN(rule) true
#define COMMON_RETURN(step, cfa) ((cfa) - 8)
#define PC_KEY(at) (at)
#define PLAIN_ADDRESS(pc) (pc)
#elif defined(__TARGET_ARCH_arm64)
/* It lies after the frame pointer. A link register that is not saved is rare: a leaf that a signal struck. */
#define HAS_COMMON_RETURN(rule) ((rule)->saved[0] && (rule)->saved[1] == (rule)->saved[0] + 1)
#define COMMON_RETURN(step, cfa) ((cfa) + STEP_SAVED(step) * 8 + 8)
#define PC_KEY(at) ((at) >> 2) /* 48 bits of address, and instructions of 4 bytes */
#define PLAIN_ADDRESS(pc) ((pc) & ((1ULL << 48) - 1)) /* unsigned */
#endif

static __always_inline bool is_common(struct unwind_rule *rule)
{
	s32 saved = rule->saved[0];

	return (u32)(rule->kind - RULE_SP) <= RULE_FP - RULE_SP && !rule->from_fp && !(rule->cfa & ~0x7fff8) &&
	       saved >= -64 && saved < 64 && HAS_COMMON_RETURN(rule);
}

/* The step for the address at, from the tables. */
__attribute__((noinline)) u64 find_step(u64 at, u32 head, u32 id)
{
	u32 number = find_rule(at, head, id);
	struct unwind_rule *rule;

	if (!IS_RULE(number))
		return STEP_UNKNOWN;
	rule = bpf_map_lookup_elem(&rules, &number);
	if (!rule)
		return STEP_UNKNOWN;
	if (rule->kind == RULE_END)
		return number | STEP_END;
	if (!is_common(rule))
		return number;
	return number | STEP_COMMON | (rule->kind == RULE_FP ? STEP_FROM_FP : 0) |
	       (u64)(rule->cfa / 8) << 17 | ((u64)rule->saved[0] & 127) << 33;
}

static __always_inline u64 step_at(u64 at, u64 space)
{
	u64 id = SPACE_ID(space), hash = (at ^ id << 32) * 0x9fb21c651e98df25ULL;
	u64 where = PC_KEY(at) | id << 47, tag = (hash >> 16 & 0x7fff) << 49 | id >> 17 << 40;
	u32 key = hash >> (64 - PC_SLOTS_BITS);
	struct pc_entry *e = bpf_map_lookup_elem(&pc_cache, &key);
	u64 step;

	if (e && e->where == where) {
		step = e->step;
		if ((step ^ tag) <= STEP_MASK)
			return step & STEP_MASK;
	}
	step = find_step(at, SPACE_HEAD(space), SPACE_ID(space));
	if (e && step != STEP_UNKNOWN && !(PC_KEY(at) >> 47)) {
		e->where = where;
		e->step = tag | step;
	}
	return step;
}

#endif
