/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types and constants that memtrace uses, declared by hand so
 * that the build depends on no kernel's headers. Structs marked
 * preserve_access_index are matched to the running kernel's layout by CO-RE.
 */
#ifndef MEMTRACE_KERNEL_H
#define MEMTRACE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};
enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

enum { SIGCHLD = 17, SIGURG = 23 }; /* include/uapi/asm-generic/signal.h */

/* include/linux/mm_types.h: the same values from 5.9 on */
enum {
	FAULT_FLAG_WRITE = 0x1,
	FAULT_FLAG_TRIED = 0x20,
	FAULT_FLAG_USER = 0x40,
	FAULT_FLAG_REMOTE = 0x80,
	FAULT_PENDING = 0x80000000, /* our own, so that kept flags are never 0 */
	VM_FAULT_MAJOR = 0x4,
	VM_FAULT_RETRY = 0x400,
	VM_FAULT_ERROR = 0x1 | 0x2 | 0x10 | 0x20 | 0x40 | 0x800,
};

/* User-mode registers at a probe; a stable interface (bpf_user_pt_regs_t). */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
};
#else
#error "memtrace has no register map for this architecture"
#endif

struct mm_struct {
	unsigned long brk;
} __attribute__((preserve_access_index));

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	int group_exit_code;
} __attribute__((preserve_access_index));

/* kernel/events/uprobes.c: the returns that a thread's return probes wait for, innermost first. */
struct return_instance {
	unsigned long stack; /* where the return address was */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __attribute__((preserve_access_index));

struct uprobe_task {
	struct return_instance *return_instances;
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase; /* where the thread's local variables are found from */
} __attribute__((preserve_access_index));
#else
struct thread_struct {};
#endif

typedef struct {
	unsigned long sig[1];
} __attribute__((preserve_access_index)) sigset_t;

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	int exit_signal; /* what its parent is sent as it ends */
	struct mm_struct *mm;
	struct signal_struct *signal;
	unsigned long maj_flt;
	u32 self_exec_id;
	u64 start_time;
	struct task_struct *group_leader;
	struct uprobe_task *utask;
	unsigned int ptrace;
	struct task_struct *parent; /* its tracer, where it has one */
	sigset_t blocked;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

/* exceptions:page_fault_user as a classic tracepoint. */
struct page_fault_tracepoint {
	u64 common;
	unsigned long address;
	unsigned long ip;
	unsigned long error_code;
};

#endif
