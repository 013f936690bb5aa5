/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MEMTRACE_MAPS_H
#define MEMTRACE_MAPS_H

#include "record.h"
#include <bpf/bpf_helpers.h>

/* Set by the tracer before loading. */
const volatile u64 fixed_cookie = 0;      /* kernels before 5.15: one program a probe */
const volatile bool has_task_storage = true; /* 5.12 */
const volatile bool has_atomics = true;      /* that return a value; 5.12, arm64 5.18 */
const volatile u32 stack_depth = 64;      /* frames; 0 takes no stacks */
const volatile u32 wake_bytes = 256 << 10; /* of a ring buffer */
const volatile u32 wake_lines = 4096;      /* of an event ring */
const volatile u32 ring_lines = 4096;      /* a power of two */
const volatile u32 ring_bits = 12;         /* which */
const volatile u32 press_bytes = 512 << 10; /* waiting in a ring buffer, from which on blocks are sampled: see pressure.h */
const volatile u32 press_lines = 2048;      /* in an event ring */
const volatile u32 press_interval = 0;      /* then; 0: never */
const volatile bool follow = true;
const volatile u32 tracer_tgid = 0;
const volatile bool by_tables = false; /* unwind by .eh_frame, else by frame pointers */
const volatile bool can_sample = false; /* see sample.h */
const volatile bool touch_in_turns = false; /* faults have stacks only while the tracer says so: see touch.h */
const volatile u64 sample_seed = 0; /* of every thread's random numbers, for tests; 0: none */

#define LOG2_STEPS 1024
const volatile u64 log2_table[LOG2_STEPS + 1] = {}; /* log2(1 + i / LOG2_STEPS), 32 bits after the point */

#define MAX_FRAMES 127
#define MOST_FRAMES (MAX_FRAMES + 1) /* a power of two */
#define WINDOW_WORDS 2048 /* 16 KiB of stack; a power of two */

/* A probe that a thread has come to before: its instruction, and its cookie. */
struct known_probe {
	u64 ip;
	u64 cookie;
	u32 clean; /* calls since one had another one inside; counted where blocks are sampled */
	u32 predictor; /* which one of the thread's tells its results; 0: none */
	u32 relayed;   /* see relay.h */
	u32 pad;
};

/* Powers of two. Functions that are called by turns must not drive each other out, wherever they lie. */
#define KNOWN_PROBES 32
#define KNOWN_WAYS 4

/* A frame as its caller's registers would be after it returned. */
struct cursor {
	u64 pc; /* a return address, or one more than where a signal or a USDT probe struck */
	u64 sp;
	u64 fp;
	u64 lr; /* arm64: the link register of such a frame */
};

/*
 * Where an allocator finds what it returns; tracer/probe.ThreadCache. In thread_caches
 * the first place stands for none.
 */
struct thread_cache {
	s64 slot;     /* where the word lies that says how far from a thread's pointer its variable is, in bytes from the probed instruction; 0: fixed bytes */
	s64 table;    /* and the bytes that say the class of each 8 bytes of size */
	s32 fixed;
	s32 first;    /* where the first list lies in the cache */
	u32 limit;    /* of the block's size */
	u32 layout;   /* enum cache_layout */
	u16 stride;   /* from one list to the next */
	u16 head;     /* where in a page's description its list is */
	u16 budget;   /* where in the cache the bytes are counted down to a sample; 0: nowhere */
	u16 pad;
};

/* See predict.h. */
struct predictor {
	u64 offset; /* of the variable from the thread's pointer */
	u64 base;   /* that pointer */
	u64 cache;  /* what is there; 0: not known yet */
	u64 table;  /* address */
	s32 first;
	u32 limit;
	u16 stride;
	u16 head;
	u16 budget;
	u16 layout;
	u32 number; /* which one of the thread's it is; 0: none */
	u32 count;  /* of predictions */
	bool is_off; /* nothing more is predicted: it was wrong */
};

/* What a thread's allocator call in progress left for its return, and more. */
struct thread {
	u64 owner; /* of a slot: SELF_OWNER, or 0 */
	u64 sp;    /* at the entry of the outermost call; 0: none in progress */
	u64 size;
	u64 old;   /* realloc; of a pool's block: the pool, of a pool: its parent */
	u64 out;   /* posix_memalign and pools: where the address goes */
	u64 began; /* realloc: ns */
	u64 stack_top;
	u64 fault_address;
	unsigned long major_faults;
	u32 shape;
	u32 hidden;      /* calls nested in the one in progress */
	u32 fault_flags;
	u32 interval;   /* of the countdown; 0: there is none */
	u64 freed;      /* the last block that was freed */
	u64 ending;     /* sp at the entry of the function that ends a pool's blocks; 0: none in progress */
	u64 forward_sp; /* at the entry of that free, if it may jump on to another */
	u64 free_sp;    /* at the entry of that free, if the thread has allocated nothing since */
	u64 walked_to;  /* where the last walk ended; 0: there was none */
	u64 countdown;  /* bytes up to the next hit */
	u64 random;     /* state of the random numbers; 0: none yet */
	u64 outer;      /* the probe of the call in progress */
	u64 ret;        /* its return address, where that is kept */
	u64 latest;     /* the last recorded block, if the thread has allocated nothing since */
	u64 result;     /* of the call that is being recorded */
	u64 predicted;  /* what the call in progress is to return; 0: unknown */
	struct predictor predictor;
	u64 pending;      /* a block that is recorded, and its call may not have taken it yet; 0: none. tracer/pending.go reads it */
	u64 pending_at;   /* an address, and the word that is there until the call takes the block */
	u64 pending_word;
	struct cursor from; /* where its stack begins; pc 0: at the slot of a return address */
	struct cursor call_from; /* the same of the call in progress, while a page fault's stack is taken. The BPF stack has no room */
	u64 touch_began; /* ns: since when that costs time; 0: its time is not taken */
	u32 taken;      /* the interval by which the call in progress was chosen */
	u32 keep;       /* what of it is to be recorded */
	u32 relay;      /* enum relay: of the call in progress */
	u32 left;       /* the block that its realloc was given was left out */
	u32 free_file;  /* which file the function of the last free is in */
	u32 touching;   /* its stack is being taken at a page fault */
	u32 touches;    /* page faults with a stack so far */
	u32 by_exit;    /* the call in progress keeps its return address: see exit.h; with OPEN_ENDED if it is a release that may return unseen */
	u64 recorded;   /* calls so far */
	u64 timed;      /* ns: since when the call in progress costs time; 0: its time is not taken */
	struct known_probe known[KNOWN_PROBES];
};

struct stack_record {
	struct record_head head;
	u64 frames[MOST_FRAMES];
};

/* A frame on the way outwards; see unwind.h. */
struct walked {
	u64 cfa; /* of a frame made by a signal: where its registers lie */
	u64 fp;
	u32 rule;
	u32 pad;
};

#define SAVED_REGS 6 /* callee-saved registers that are followed; the first is the frame pointer */

/* A frame of the last walk, and where the way on from it was; see reuse.h. */
struct memo_frame {
	u64 pc;
	u64 fp;
	u64 hash;  /* of the pc */
	u32 off;   /* of its stack pointer from the memo's base */
	u16 ret;   /* where its return address is, in words from its stack pointer */
	u16 saved; /* and the caller's frame pointer; or NOT_SAVED */
};

#define NOT_SAVED 0xffff
#define MEMO_FRAMES 256 /* a power of two */
#define MEMO_ORIGIN 32  /* where a whole walk puts its innermost frame; others may come in front */
#define FRESH_FRAMES 16 /* inner frames that may differ */

struct memo {
	u64 space; /* whose rules led from frame to frame */
	u64 base;
	u32 first, end; /* none: equal */
	/* Of a walk in progress; here, as the verifier would tell their values apart. */
	u64 sum;   /* of the inner frames */
	u32 inner; /* how many they are */
	u32 at;
	u32 noted;
	u32 pad;
	struct memo_frame fresh[FRESH_FRAMES];
	struct memo_frame f[MEMO_FRAMES];
};

/*
 * Where a CPython has things: addresses in the process, offsets in its structures, in bytes. Those of a frame and of a
 * code object are read whole, up to PYTHON_WORDS words. See python.h; the tracer fills it.
 */
struct interpreter {
	u64 current;      /* address of the word that points to the state of the GIL's holder; 0: there is none */
	u64 key;          /* address of the key of thread-specific data that has the thread's state */
	u32 keys;         /* how many of those lie in the thread's descriptor */
	u32 specific;     /* where the first one's value does */
	u32 thread_id;    /* of a thread's state: pthread_self(3) */
	u32 frame;        /* of that: its innermost frame, or what points to that */
	u32 via;          /* and where in there; PYTHON_DIRECT: it is the frame */
	u32 frame_bytes;
	u32 previous;     /* of a frame */
	u32 code;
	u32 last;         /* the last instruction */
	u32 last_is_index;
	u32 enters;       /* the byte that says whether the evaluation loop was entered for it */
	u32 owner;        /* the byte that says what it is part of */
	u32 entry;        /* enum python_entry */
	u32 instructions; /* of a code object */
	u32 code_from;    /* what is read of it, and from where on */
	u32 code_bytes;
	u32 lines;        /* of what is read: its table of lines */
	u32 first_line;
	u32 file_name;
	u32 name;
	u32 version;      /* its number; 0: it has none */
	u32 chunked;      /* frames mostly lie right behind the one that called them */
	u64 generation;   /* another one whenever a code object is freed; 0: that is not known */
};

#define PYTHON_DIRECT 0xffffffff
#define PYTHON_FRAMES 128 /* a power of two */
#define PYTHON_WORDS 16   /* likewise */

struct python_frame {
	u64 code;  /* address of the code object; 0: the boundary of a run of the evaluation loop */
	u64 lines; /* of its table of lines; with its first line and others, what tells it from another one at its address */
	u64 others;
	u32 first_line;
	u32 at;    /* the last instruction, in bytes from the first (units of two to 3.10) */
	u32 enters; /* the evaluation loop was entered for it */
	u32 owner;
};

/* What was read of a code object, and when. */
struct python_code {
	u64 code;
	u64 generation;
	u64 lines;
	u64 others;
	u32 first_line;
	u32 tgid;
	u64 hash; /* of all that tells it from others */
};

#define PYTHON_CODES 256       /* a power of two */
#define PYTHON_CHUNK_WORDS 128 /* likewise */

struct python_scratch {
	u64 at; /* the next frame outwards */
	u64 sum;
	u32 frames;
	u32 cut;
	u64 generation;
	u64 from;  /* address of what chunk holds */
	u64 reach; /* how far behind that a frame may begin */
	u64 chunk[PYTHON_CHUNK_WORDS];
	u64 words[PYTHON_WORDS];
	struct record_head head; /* of the record that is sent */
	struct python_frame f[PYTHON_FRAMES];
	struct python_code codes[PYTHON_CODES];
};

/*
 * Where a stack is put together. Between two allocations of a program that does
 * other things the caches forget this, page by page; so what each stack
 * needs lies together, at the beginning.
 */
struct scratch {
	u32 taken;
	u32 words; /* in the window */
	u64 base;  /* where the window begins */
	u64 stack_top;
	u64 reach; /* behind what the thread's last walk looked at */
	struct cursor at;
	struct cursor from; /* where the walk began */
	u32 guessed; /* the frame that a frame pointer led to */
	u32 unknown; /* the frame in no known mapping */
	u64 regs[SAVED_REGS];
	struct memo memo;
	u64 window[WINDOW_WORDS];
	struct stack_record stack;
	struct walked walked[MOST_FRAMES];
	struct python_scratch python;
};

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

/* The tracer sets the sizes of both. */
struct event_ring {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RING_RECORDS + 4096);
	__type(key, u32);
	__type(value, union ring_line);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct event_ring);
} event_rings SEC(".maps");

/* One ring a CPU: a ring that CPUs share costs ten times as much. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

/*
 * What threads left for later, direct-mapped by thread id: the look-up is a
 * few instructions of the program itself. A thread whose slot another one
 * holds has its state in threads.
 */
#define THREAD_SLOTS (1 << 14)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREAD_SLOTS);
	__type(key, u32);
	__type(value, struct thread);
} thread_slots SEC(".maps");

/* The tracer makes it a hash where a kernel has no task storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/*
 * Several a CPU, since a program may be preempted and another one run. The
 * tracer sets the number of elements.
 */
#define SCRATCHES 4
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Processes under trace, for the probes that the kernel cannot scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u32);
} targets SEC(".maps");

/*
 * Where variables that hold a pool lie, in bytes from the probed instruction:
 * that is the same wherever a file is mapped. The first stands for none.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, s64);
} pool_variables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct thread_cache);
} thread_caches SEC(".maps");

/* Where an argument of a USDT probe is; tracer/probe.StaticArg. */
struct mark_arg {
	s64 value;   /* the constant, or a distance in bytes from the base */
	u16 base;    /* a register: where it is in pt_regs */
	u16 index;   /* another one, where index_by is not 0 */
	u8 kind;     /* enum mark_kind */
	u8 size;     /* bytes: 1, 2, 4 or 8 */
	u8 is_signed;
	u8 index_by; /* index times 2 to the power of this less one; 0: no index */
};

enum mark_kind {
	MARK_NONE,
	MARK_CONSTANT,
	MARK_REGISTER,
	MARK_MEMORY,   /* at a register plus a distance, and another register times something */
	MARK_RELATIVE, /* in memory, at a distance from the probed instruction */
};

#define MARK_ARGS 3
struct mark {
	struct mark_arg args[MARK_ARGS];
};

/* Where the arguments of USDT probes are; the tracer fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_MARKS);
	__type(key, u32);
	__type(value, struct mark);
} marks SEC(".maps");

/* What the tracer sets at any time. */
enum sampling_key {
	SAMPLING_INTERVAL, /* how many bytes there are between hits on average */
	SAMPLING_TOUCH,    /* whether page faults have stacks: see touch.h */
	SAMPLING_KEYS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLING_KEYS);
	__type(key, u32);
	__type(value, u32);
} sampling SEC(".maps");

/* See sample.h; tracer/filter.go counts down. */
#define FILTER_BITS 20
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << FILTER_BITS);
	__type(key, u32);
	__type(value, u64);
} filter SEC(".maps");

/* What is done about rings that fill up; see pressure.h. The tracer ends a phase. */
struct pressure {
	u64 state;
	u64 began; /* ns: of the latest phase */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pressure);
} pressures SEC(".maps");

/* Blocks that were left out; see leave.h. */
#define LEFT_BITS 20
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << LEFT_BITS);
	__type(key, u32);
	__type(value, u64);
} left SEC(".maps");

/* What the probes of a sampling tracer cost: counts by CPU, HIT_KINDS a CPU; the tracer sets the number of elements. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HIT_KINDS);
	__type(key, u32);
	__type(value, u64);
} hits SEC(".maps");

#define KEEP_NEW 1 /* the block that a call returns */
#define KEEP_OLD 2 /* the end of the one that was given to realloc */
#define KEEP_TEMPORARY 4 /* which was the thread's latest */

/*
 * Ids of stacks already sent, direct-mapped: two stacks that share a slot are
 * sent again and again, never confused.
 */
#define SEEN_SLOTS (1 << 16)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_SLOTS);
	__type(key, u32);
	__type(value, u64);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_CAUSES);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps");

/* Which processes lost events; those that have no room are in the sum alone. */
struct blame {
	u64 count;
	u64 first, last; /* ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct blame);
} blamed SEC(".maps");

__attribute__((noinline)) int blame_process(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 now = bpf_ktime_get_ns();
	struct blame fresh = { .first = now }, *b;

	b = bpf_map_lookup_elem(&blamed, &tgid);
	if (!b) {
		bpf_map_update_elem(&blamed, &tgid, &fresh, BPF_NOEXIST);
		b = bpf_map_lookup_elem(&blamed, &tgid);
		if (!b)
			return 0;
	}
	__sync_fetch_and_add(&b->count, 1);
	b->last = now;
	return 0;
}

/* Programs may be preempted by others on the same CPU: hence the atomic add. */
static __always_inline void count_loss(u32 cause)
{
	u64 *n = bpf_map_lookup_elem(&losses, &cause);

	if (n)
		__sync_fetch_and_add(n, 1);
	if (cause == LOSS_RING_FULL || cause == LOSS_THREAD_STATE || cause == LOSS_READ_FAULT || cause == LOSS_MISPREDICTED)
		blame_process();
}

static __always_inline u64 probe_cookie(void *ctx)
{
	if (fixed_cookie)
		return fixed_cookie;
	return bpf_get_attach_cookie(ctx);
}

#endif
