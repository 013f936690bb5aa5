/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What travels through the rings. bpf2go generates the Go side from these
 * types; tracer/decode.go reads them at fixed offsets.
 */
#ifndef MEMTRACE_RECORD_H
#define MEMTRACE_RECORD_H

#include "kernel.h"

/* Equal to tracer/event.Kind; RECORD_STACK is the tracer's own. */
enum record_kind {
	RECORD_ALLOC = 1,
	RECORD_FREE = 2,
	RECORD_REALLOC = 3,
	RECORD_ALLOC_FAILED = 4,
	RECORD_REALLOC_FAILED = 5,
	RECORD_MMAP = 6,
	RECORD_MUNMAP = 7,
	RECORD_FAULT = 8,
	RECORD_FORK = 9,
	RECORD_EXEC = 10,
	RECORD_EXIT = 11,
	RECORD_POOL_BEGIN = 12,
	RECORD_POOL_CHANGE = 13,
	RECORD_MREMAP = 14,
	RECORD_STACK = 64,
	RECORD_STALE = 65, /* addr lies in no mapping that the unwinder knows */
	RECORD_MAPPED = 66, /* code was loaded */
};

/* Equal to tracer/event.Flags. */
enum record_flags {
	RECORD_FAULT_MAJOR = 1,
	RECORD_PREV_FAULT_MAJOR = 2,
	RECORD_POOLED = 2, /* of an allocation: old is the pool that it is from */
	RECORD_SHARED_VM = 4,
	RECORD_TOUCH = 8, /* of a fault, as the next three: it has a stack */
	RECORD_TOUCH_WRITE = 16,
	RECORD_TOUCH_MAPPED = 32, /* the page was there, and is to be copied, or to be written to */
	RECORD_TOUCH_KERNEL = 64, /* by the kernel, for the thread */
	RECORD_WEIGHTED = 4, /* of an allocation: old is what its program says that it stands for, in bytes */
	RECORD_NESTED = 64, /* of a free: within a release */
	RECORD_BRK = 32, /* of a mmap or munmap: a move of the program break */
	RECORD_TRUNCATED = 8, /* of a stack, as all below: deeper than the limit, or the walk broke off */
	RECORD_FP_GUESS = 16, /* a frame had no row, its frame pointer was tried */
	RECORD_BOTTOM = 32,   /* ends where the thread began */
	RECORD_RELEASED = 8,   /* of a free or realloc: the filter's slot of the block has been cleared */
	RECORD_TEMPORARY = 16, /* of a free: the thread has allocated nothing since this block */
	RECORD_OLD_ONLY = 128, /* of a realloc: the block that it returned is not recorded */
};

/* A free, a fault without a stack and the life of processes need no more than this. */
struct record_head {
	u64 time; /* ns, CLOCK_MONOTONIC, taken after the ring had room */
	u64 addr; /* of a stack: its id */
	u32 tgid;
	u32 tid;
	u32 aux; /* fork: the child; exec: the thread that called it; exit: the wait status; stack: frames; pool change: which; mremap: see MREMAP_UNIT; else the sampling interval */
	u16 cpu;  /* in a line of an event ring: the lap; see ring.h */
	u8 kind;
	u8 flags;
};

struct record_alloc {
	struct record_head head;
	u64 size; /* of the beginning of a pool: the address of its name; of a change: the other pool, or the name */
	u64 stack;
};

struct record_realloc {
	struct record_alloc alloc;
	u64 old; /* of a pooled allocation: the pool; of a weighted one: the weight; of the beginning of a pool: its parent */
	u64 began;
};

/* A line of an event ring; see ring.h. */
union ring_line {
	struct record_realloc record; /* or what it begins with */
	struct {
		u64 pos;  /* lines taken by the producers, or given back by the reader */
		u64 seen; /* the reader's position when a producer last looked */
	};
};

enum ring_layout {
	RING_PRODUCER,
	RING_READER,
	RING_RECORDS,
};

/* What is counted of hits; equal to tracer.Hits. */
enum hit {
	HIT_ENTRY,     /* calls seen at their entry alone */
	HIT_RETURN,    /* at entry and return, and not recorded */
	HIT_RECORDED,  /* at both, and recorded */
	HIT_PREDICTED, /* recorded, and no return probe: also in HIT_ENTRY */
	HIT_TIMED,     /* of the recorded ones: whose time was taken */
	HIT_TIMED_NS,  /* from the return's entry to the record's end, all together */
	HIT_EXIT,      /* executions of functions' own return instructions */
	HIT_TOUCH,       /* page faults with a stack */
	HIT_TOUCH_TIMED, /* of those: whose time was taken */
	HIT_TOUCH_NS,    /* of those, all together */
	HIT_KINDS = 16,
};

/* Why something was not seen; counted per CPU in the map losses. */
enum loss {
	LOSS_RING_FULL,
	LOSS_STACK_FULL,
	LOSS_THREAD_STATE,
	LOSS_READ_FAULT,
	LOSS_ABANDONED,
	LOSS_MISPREDICTED, /* results of calls that were not as predicted */
	LOSS_UNMAPPED, /* stacks with a frame in no known mapping; not a loss of an event */
	LEFT_OUT_ALLOC, /* calls that were left out under pressure; no loss either */
	LEFT_OUT_FREE,
	LEFT_OUT_REALLOC,
	LOSS_CAUSES,
};

/* What a probed function does; equal to tracer/probe.Shape. */
enum shape {
	SHAPE_MALLOC = 1,    /* size */
	SHAPE_CALLOC,        /* n, size of one */
	SHAPE_REALLOC,       /* old, size */
	SHAPE_REALLOCARRAY,  /* old, n, size of one */
	SHAPE_FREE,          /* address */
	SHAPE_POSIX_MEMALIGN, /* where the address goes, size */
	SHAPE_MMAP,          /* size; 0: what a System V segment has, which only the kernel knows */
	SHAPE_MUNMAP,        /* address, size; 0: all of a System V segment */
	SHAPE_RELEASE,       /* address; releases within are part of it, but for blocks that the program sees */
	SHAPE_RESIZE,        /* address, size, by how much more if that can be; returns the size that it has */
	SHAPE_POOL_ALLOC,    /* size, pool */
	SHAPE_POOL_CURRENT,  /* size; the pool is in a variable */
	SHAPE_POOL_BEGIN,    /* parent, address of its name; returns the pool */
	SHAPE_POOL_BEGIN_OUT, /* where the pool goes, parent; returns 0 */
	SHAPE_POOL_CHANGE,   /* pool, another one or the address of its name; COOKIE_CHANGE says what becomes of it */
	SHAPE_MREMAP,        /* address, size, new size; returns the new address */
	SHAPE_BRK,           /* the new program break */
	SHAPE_SBRK,          /* by how much to move the program break; returns where it was */
	SHAPE_MARK_ALLOC,    /* a USDT probe, see mark.h: block, size, what it stands for */
	SHAPE_MARK_FREE,     /* block */
};

/* What becomes of a pool; equal to tracer/event.PoolChange. */
enum pool_change {
	POOL_CLEARED_ALONE = 1, /* its blocks end */
	POOL_CLEARED,           /* they do, and the pools below it */
	POOL_ENDED,             /* as that, and so does the pool */
	POOL_CHILDREN_CLEARED,  /* the blocks of the pools below it end */
	POOL_CHILDREN_ENDED,    /* and those pools */
	POOL_MOVED,             /* it is below another pool from now on */
	POOL_NAMED,
	POOL_CHAIN, /* no pool: a chain of blocks that end; at which distance the next one's address is in each */
};

/*
 * A mremap's size before, in aux: in units of 4 KiB, which every page size is
 * a multiple of; MREMAP_VAST and more is MREMAP_VAST.
 */
#define MREMAP_UNIT 12
#define MREMAP_VAST 0xffffffffULL

/*
 * The attach cookie: bits 0 to 31 the process (so that no look-up is needed to
 * know whether a hit is meant; 0: all under trace), 32 to 35 and, above those, 55 the shape, then 4 bits a register of
 * the shape's arguments; bit 48 says of a free that it may jump on to another
 * probed one, and of a malloc that it throws where it fails. 49 to 54 say of a free by how many words the stack has grown since its entry.
 * Of all else, 49 says that the return is seen at the function's own instructions (exit.h), and 50, of a release, that it may also
 * return elsewhere, and 51 that the function's own code keeps a frame record wherever it has a frame. 56 to 63 are the place in pool_variables of the variable that holds the pool, of a
 * malloc that in thread_caches, of a free the number of its file. A malloc that hands small alignments on has that of its alignment as a second register.
 * That of a USDT probe has the place in marks of its arguments instead of registers.
 */
#define COOKIE_TGID(c) ((u32)(c))
#define COOKIE_SHAPE(c) (((c) >> 32 & 15) | ((c) >> 55 & 1) << 4)
#define COOKIE_REG(c, n) (((c) >> (36 + 4 * (n))) & 15)
#define COOKIE_ALIGNMENT(c) COOKIE_REG(c, 1) /* of a malloc, see relay.h */
#define COOKIE_MAY_FORWARD(c) (((c) >> 48) & 1)
#define COOKIE_THROWS(c) (((c) >> 48) & 1) /* of a malloc or calloc */
#define COOKIE_BY_EXIT(c) (((c) >> 49) & 1) /* of what has a return */
#define COOKIE_OPEN_ENDED(c) (((c) >> 50) & 1) /* of a release */
#define COOKIE_FRAMED(c) (((c) >> 51) & 1) /* of what is by exit: it keeps a frame record */
#define COOKIE_SP_DELTA(c) ((((c) >> 49) & 63) * 8)
#define COOKIE_VARIABLE(c) ((u32)((c) >> 56))
#define COOKIE_FILE(c) ((u32)((c) >> 56)) /* of a free; 0: unknown */
#define COOKIE_MARK(c) ((u32)((c) >> 36) & (MAX_MARKS - 1))
#define MAX_MARKS 4096
#define COOKIE_CHANGE(c) COOKIE_REG(c, 2) /* takes no third argument */

#endif
