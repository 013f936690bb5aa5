package launch

import (
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A thread has one tracer at a time. Before a watched program takes another under ptrace,
// or is taken, the target of that call is detached, so that the call succeeds.

func (h *Hooks) beforeDetach(pid int) {
	if h.BeforeDetach != nil {
		h.BeforeDetach(pid)
	}
}

// mayPtrace reports whether a program may call ptrace unseen.
func (w *Watcher) mayPtrace(pid int) bool { return w.hooks.MayPtrace != nil && w.hooks.MayPtrace(pid) }

// ptraceCalled reports whether a thread's signal was for a process that it is about to take under ptrace.
// That one is then detached.
func (w *Watcher) ptraceCalled(tid int) bool {
	if w.hooks.Tracing == nil {
		return false
	}
	target, ok := w.hooks.Tracing(tid)
	if ok {
		w.yield(tid, target)
	}
	return ok
}

// yield detaches the process that a thread is about to take under ptrace, and resumes the thread.
func (w *Watcher) yield(tid, target int) {
	p, caller := w.program(target), w.owner[tid]
	if p == nil || p.detaching {
		w.resume(tid, 0)
		return
	}
	w.call(func() { w.hooks.beforeDetach(p.pid) }, func() {
		if w.programs[p.pid] != p || w.owner[tid] != caller { // one of them was killed
			w.resume(tid, 0)
			return
		}
		p.detaching, p.since = true, time.Now()
		p.callers = append(p.callers, tid)
		for other := range p.held {
			w.detachStopped(p, other)
		}
		for _, other := range p.others(tid) {
			w.interrupt(other)
		}
		w.yieldToTracers(p)
	})
}

// detachAtStop detaches a thread at a stop, if its program is being detached. It reports whether that was so.
func (w *Watcher) detachAtStop(tid int, status unix.WaitStatus) bool {
	p := w.program(tid)
	if p == nil || !p.detaching {
		return false
	}
	signal := uintptr(status.StopSignal())
	if ours := signal == uintptr(unix.SIGURG) && w.isOurs(tid); ours || int(status)>>16 != 0 || signal == uintptr(syscallStop) {
		signal = 0
	}
	if int(status)>>16 == ptraceEventStop {
		w.restart(tid)
	}
	_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, signal, 0, 0) // it may have been killed
	if int(status)>>16 == unix.PTRACE_EVENT_EXEC {
		w.disownAll(p.pid) // its other threads are gone
	}
	w.forget(tid)
	delete(p.held, tid)
	if !w.owns(p) {
		w.drop(p)
	}
	w.yieldToTracers(p)
	return true
}

// isOurs reports whether a thread that is being detached got SIGURG from us, for any reason, and forgets that it did.
func (w *Watcher) isOurs(tid int) (ours bool) {
	if w.hooks.Tracing != nil {
		_, ours = w.hooks.Tracing(tid)
	}
	if w.hooks.Exiting != nil {
		ours = w.hooks.Exiting(tid) || ours
	}
	if w.hooks.Execing != nil {
		ours = w.hooks.Execing(tid) || ours
	}
	if w.hooks.Unknown != nil {
		ours = w.hooks.Unknown(tid) != nil || ours
	}
	return ours
}

// detachStopped detaches a stopped thread, and drops the program if that was its last.
func (w *Watcher) detachStopped(p *program, tid int) {
	_ = unix.PtraceDetach(tid) // it may have been killed
	delete(p.held, tid)
	w.forget(tid)
	if !w.owns(p) {
		w.drop(p)
	}
}

// yieldToTracers resumes the callers of ptrace once their target is detached. If the target does not stop in time, as
// waitsFor has it, they are resumed all the same, and their call fails.
func (w *Watcher) yieldToTracers(p *program) {
	if !p.detaching {
		return
	}
	var missing []int
	for tid, owner := range w.owner {
		if owner == p && !p.calls(tid) {
			missing = append(missing, tid)
		}
	}
	if p.waitsFor(missing) {
		return
	}
	for _, tid := range p.callers {
		if w.owner[tid] == p { // it is to be taken itself
			w.detachStopped(p, tid)
			continue
		}
		w.resume(tid, 0)
	}
	p.callers = nil
	if !w.owns(p) {
		w.drop(p)
	}
}

func (p *program) calls(tid int) bool { return slices.Contains(p.callers, tid) }

func (w *Watcher) owns(p *program) bool {
	for _, owner := range w.owner {
		if owner == p {
			return true
		}
	}
	return false
}

// drop forgets a program of which no thread is watched any more.
func (w *Watcher) drop(p *program) {
	if w.programs[p.pid] == p {
		delete(w.programs, p.pid)
	}
}

// What PTRACE_GET_SYSCALL_INFO writes of a stop at the entry of a system call; include/uapi/linux/ptrace.h.
const (
	getSyscallInfo   = 0x420e
	syscallInfoEntry = 1
)

type syscallInfo struct {
	op     uint8
	_      [3]uint8
	arch   uint32 // AUDIT_ARCH_*
	_, _   uint64 // instruction and stack pointer
	number uint64
	args   [6]uint64
}

// Programs of 32 bits number their system calls in another way, i386 and arm these alike; include/uapi/linux/audit.h.
const (
	audit64Bit    = 0x80000000
	ptrace32      = 26
	sigreturn32   = 119
	prctl32       = 172
	rtSigreturn32 = 173
	ptraceX32     = 1<<30 | 521
)

const (
	ptraceTraceme = 0
	ptraceAttach  = 16
	ptraceSeize   = 0x4206
)

// callAt is the stop of a thread at a system call. Where it can't be had, it is that of no call.
func callAt(tid int) (info syscallInfo) {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return syscallInfo{}
	}
	return info
}

// isEntry reports whether a thread is about to do one of some system calls, of 64 bits or of 32.
func (info syscallInfo) isEntry(of64, of32 []uint64) bool {
	if info.arch&audit64Bit == 0 {
		of64 = of32
	}
	return info.op == syscallInfoEntry && slices.Contains(of64, info.number)
}

// takes reports whether that is a call of ptrace that takes a process or thread, and which: the caller's own where its
// parent is to take it.
func (info syscallInfo) takes(tid int) (target int, ok bool) {
	if !info.isEntry([]uint64{unix.SYS_PTRACE, ptraceX32}, []uint64{ptrace32}) {
		return 0, false
	}
	switch uint32(info.args[0]) {
	case ptraceTraceme:
		return processOf(tid), true
	case ptraceAttach, ptraceSeize:
		return int(int32(info.args[1])), true
	}
	return 0, false
}

// namesTracer reports whether that says who may take the process under ptrace.
func (info syscallInfo) namesTracer() bool {
	return info.isEntry([]uint64{unix.SYS_PRCTL}, []uint64{prctl32}) &&
		uint32(info.args[0]) == unix.PR_SET_PTRACER && info.args[1] != 0
}

func (info syscallInfo) returnsFromHandler() bool {
	return info.isEntry([]uint64{unix.SYS_RT_SIGRETURN}, []uint64{sigreturn32, rtSigreturn32})
}
