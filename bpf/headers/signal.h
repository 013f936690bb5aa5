/* SPDX-License-Identifier: GPL-2.0-only */
/* Signals by which a thread is stopped, and those that others send. */
#ifndef MEMTRACE_SIGNAL_H
#define MEMTRACE_SIGNAL_H

#include "maps.h"
#include "regs.h"
#include <bpf/bpf_core_read.h>

/*
 * Whether the calling thread, which runs, blocks the signal. It would then wait for the thread to read it from a
 * signalfd or by sigwait, rather than stop it; ptrace sees it only where it is delivered.
 */
static __always_inline bool is_blocked(struct task_struct *task, u32 signal)
{
	return BPF_CORE_READ(task, blocked.sig[0]) >> (signal - 1) & 1;
}

/* Whether the tracer has the calling thread under ptrace: another one would hand the signal on. */
static __always_inline bool is_traced(struct task_struct *task)
{
	return BPF_CORE_READ(task, ptrace) && (u32)BPF_CORE_READ(task, parent, tgid) == tracer_tgid;
}

/* Whether it would see SIGURG before the thread does. */
static __always_inline bool is_watched(struct task_struct *task)
{
	return is_traced(task) && !is_blocked(task, SIGURG);
}

/* Threads that called exit, or would have been stopped there if they didn't block the signal. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} exit_calls SEC(".maps");

/* Threads that called exec, and are stopped there. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} exec_calls SEC(".maps");

/* Stops a thread that calls exit. */
static __always_inline int at_exit(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 tid = bpf_get_current_pid_tgid();

	if (!is_traced(task))
		return 0;
	bpf_map_update_elem(&exit_calls, &tid, &tid, BPF_ANY);
	if (!is_blocked(task, SIGURG))
		bpf_send_signal_thread(SIGURG);
	return 0;
}

static __always_inline int at_exec(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 tid = bpf_get_current_pid_tgid();

	if (!is_watched(task))
		return 0;
	bpf_map_update_elem(&exec_calls, &tid, &tid, BPF_ANY);
	bpf_send_signal_thread(SIGURG);
	return 0;
}

SEC("uprobe/exit")
int perf_exit(void *ctx)
{
	return at_exit();
}

SEC("uprobe/exec")
int perf_exec(void *ctx)
{
	return at_exec();
}

SEC("uprobe.multi/exit")
int multi_exit(void *ctx)
{
	return at_exit();
}

SEC("uprobe.multi/exec")
int multi_exec(void *ctx)
{
	return at_exec();
}

/* Threads that are about to take another process under ptrace, or to be taken themselves, and which that is. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} ptrace_calls SEC(".maps");

enum { PTRACE_TRACEME = 0, PTRACE_ATTACH = 16, PTRACE_SEIZE = 0x4206 }; /* include/uapi/linux/ptrace.h */

/* Stops a thread that calls ptrace so that the tracer can give way: a thread has one tracer at a time. */
static __always_inline int at_ptrace(struct pt_regs *ctx)
{
	u64 self = bpf_get_current_pid_tgid();
	u32 tid = self, request = reg_value(ctx, 1), pid = reg_value(ctx, 2);

	if (request == PTRACE_TRACEME)
		pid = self >> 32;
	else if (request != PTRACE_ATTACH && request != PTRACE_SEIZE)
		return 0;
	if (!is_watched((void *)bpf_get_current_task()))
		return 0;
	bpf_map_update_elem(&ptrace_calls, &tid, &pid, BPF_ANY);
	bpf_send_signal_thread(SIGURG);
	return 0;
}

SEC("uprobe/ptrace")
int perf_ptrace(struct pt_regs *ctx)
{
	return at_ptrace(ctx);
}

SEC("uprobe.multi/ptrace")
int multi_ptrace(struct pt_regs *ctx)
{
	return at_ptrace(ctx);
}

/* include/linux/ptrace.h */
enum { PT_TRACE_FORK = 1 << 4, PT_TRACE_VFORK = 1 << 5, PT_TRACE_CLONE = 1 << 6 };

/*
 * Whether the calling thread has made a child by CLONE_UNTRACED. The kernel takes all others under ptrace whose kind
 * the parent's tracer follows: as forks, where their end sends SIGCHLD, and as clones.
 */
static __always_inline bool made_untraced(struct task_struct *parent, struct task_struct *child)
{
	u32 wanted = PT_TRACE_FORK | PT_TRACE_VFORK | PT_TRACE_CLONE;

	if (child->exit_signal != SIGCHLD)
		wanted = PT_TRACE_CLONE;
	return !child->ptrace && (parent->ptrace & wanted) == wanted;
}

/*
 * Stops the calling thread after it has made a child that nobody traces. Crash handlers do so, such as breakpad's: the
 * child takes its parent under ptrace, by system calls of its own, as soon as the parent lets it begin.
 */
static __always_inline void at_untraced_child(struct task_struct *parent, struct task_struct *child)
{
	u64 self = bpf_get_current_pid_tgid();
	u32 tid = self, pid = self >> 32;

	if (!made_untraced(parent, child) || !is_watched(parent))
		return;
	bpf_map_update_elem(&ptrace_calls, &tid, &pid, BPF_ANY);
	bpf_send_signal_thread(SIGURG);
}

/* The last signal of each number that a process was sent. */
struct signal_key {
	u32 tgid, signal;
};

struct signal_sent {
	u64 at; /* ns, CLOCK_MONOTONIC */
	u64 sender; /* tgid */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * 64); /* of two processes */
	__type(key, struct signal_key);
	__type(value, struct signal_sent);
} signals SEC(".maps");

/* The processes whose signals are noted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u32);
} noted SEC(".maps");

SEC("tp_btf/signal_generate")
int signal_generate(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct signal_key key = { .tgid = task->tgid, .signal = ctx[0] };
	struct signal_sent sent = { .at = bpf_ktime_get_ns(), .sender = bpf_get_current_pid_tgid() >> 32 };

	if (bpf_map_lookup_elem(&noted, &key.tgid))
		bpf_map_update_elem(&signals, &key, &sent, BPF_ANY);
	return 0;
}

#endif
