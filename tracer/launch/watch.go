package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ending is a program that stands still at its end.
type Ending struct {
	PID     int
	Threads []Thread // those that stand still; each has the program's memory
}

// Thread is the state of one thread when it began to end.
type Thread struct {
	TID   int
	SP    uint64   // stack pointer
	Words []uint64 // all registers, vector registers among them
}

// watch keeps the threads of a program under ptrace until the program ends.
//
// A program ends thread by thread. Each stops at PTRACE_EVENT_EXIT, before it
// lets go of the memory; so all are kept there until the last has arrived, and
// then there is a program that stands still with all its memory and registers:
//
//	thread 1  ── exit_group ──▪ stop ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┐
//	thread 2  ───── killed by it ──▪ stop ┄┄┄┄┄┄┄┄┄┼─ AtExit ─▶ all go on
//	thread 3  ─────────────── killed by it ──▪ stop┘
//
// A thread that ends on its own (system call exit, while others live) goes on
// at once. exec ends the other threads in the same way, so that they are let
// go as soon as one is seen to be in exec.
type watch struct {
	pid    int
	atExit func(Ending)
	held   map[int]bool // threads at their exit stop
	since  time.Time    // when the first of them came
	told   bool
}

const (
	watchOptions = unix.PTRACE_O_TRACEEXIT | unix.PTRACE_O_TRACECLONE
	// gatherTime is how long the program's other threads may take to end: one
	// in an uninterruptible wait does not keep the check from happening.
	gatherTime = 500 * time.Millisecond
	gatherPoll = 200 * time.Microsecond

	ptraceListen    = 0x4208 // include/uapi/linux/ptrace.h
	ptraceEventStop = 128
)

// begin resumes the program, which stands at a stop.
func (w *watch) begin() error {
	if err := unix.PtraceSetOptions(w.pid, watchOptions); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("watch process %d for its end by ptrace: %w", w.pid, err)
	}
	if err := unix.PtraceCont(w.pid, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("resume process %d: %w", w.pid, err)
	}
	return nil
}

// run resumes threads from stop to stop until the program has ended.
func (w *watch) run() {
	for {
		tid, code, err := peek(len(w.held) > 0)
		switch {
		case err != nil:
			return // ECHILD: nothing is left to watch
		case tid == 0:
			w.gather()
			time.Sleep(gatherPoll)
		case code == cldTrapped || code == cldStopped:
			w.step(tid)
		case tid == w.pid:
			return // its end is for Process.Wait
		default:
			delete(w.held, tid)
			_, _ = unix.Wait4(tid, nil, unix.WALL|unix.WNOTHREAD, nil)
		}
	}
}

// peek waits for something to happen to one of this thread's tracees, and
// leaves it to be waited for. With poll it returns 0 where nothing has.
func peek(poll bool) (tid int, code int32, err error) {
	options := unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT | unix.WALL | unix.WNOTHREAD
	if poll {
		options |= unix.WNOHANG
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, options, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		// si_pid is the first of the fields by kind, at byte 16 of siginfo_t
		// where long has 64 bits (include/uapi/asm-generic/siginfo.h).
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 16))), info.Code, err
	}
}

// step handles a stop of one thread. Errors mean that it was killed meanwhile.
func (w *watch) step(tid int) {
	var status unix.WaitStatus
	if n, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil); err != nil || n != tid || !status.Stopped() {
		return
	}
	signal := int(status.StopSignal())
	switch event := int(status) >> 16; {
	case event == unix.PTRACE_EVENT_EXIT:
		w.exiting(tid)
		return
	case event == ptraceEventStop && stopsGroup(signal):
		// Stay stopped as without ptrace, until SIGCONT.
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, ptraceListen, uintptr(tid), 0, 0, 0, 0)
		return
	case event == ptraceEventStop && !w.has(tid):
		_ = unix.PtraceDetach(tid) // a process that clone(2) made, not a thread
		return
	case event != 0:
		signal = 0
	}
	_ = unix.PtraceCont(tid, signal)
}

func stopsGroup(signal int) bool {
	return slices.Contains([]int{int(unix.SIGSTOP), int(unix.SIGTSTP), int(unix.SIGTTIN), int(unix.SIGTTOU)}, signal)
}

// has reports whether tid is a thread of the program.
func (w *watch) has(tid int) bool {
	return unix.Access(fmt.Sprintf("/proc/%d/task/%d", w.pid, tid), unix.F_OK) == nil
}

// exiting holds a thread that ends, unless it ends alone.
func (w *watch) exiting(tid int) {
	if w.told || endsAlone(tid) && len(w.others(tid)) > 0 && len(w.held) == 0 {
		_ = unix.PtraceCont(tid, 0)
		return
	}
	if len(w.held) == 0 {
		w.since = time.Now()
	}
	w.held[tid] = true
	w.gather()
}

// endsAlone reports whether the thread called exit, which ends that thread,
// rather than exit_group, or was killed.
func endsAlone(tid int) bool {
	regs, err := readRegset(tid, noteStatus)
	return err == nil && len(regs) > regCall && regs[regCall] == unix.SYS_EXIT
}

// others lists the threads that have not stopped to end, but tid.
func (w *watch) others(tid int) (out []int) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", w.pid))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		other, err := strconv.Atoi(e.Name())
		if err == nil && other != tid && !w.held[other] && !ended(w.pid, other) {
			out = append(out, other)
		}
	}
	return out
}

// ended reports whether a thread is a zombie or gone.
func ended(pid, tid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
	if err != nil {
		return true
	}
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	return len(after) > 1 && (after[1] == 'Z' || after[1] == 'X')
}

// gather calls atExit once all threads stand still, and lets them go.
func (w *watch) gather() {
	if len(w.held) == 0 {
		return
	}
	missing := w.others(0)
	switch {
	case slices.ContainsFunc(missing, w.execs):
	case len(missing) > 0 && time.Since(w.since) < gatherTime:
		return
	case !w.told:
		w.told = true
		w.atExit(w.ending())
	}
	for tid := range w.held {
		delete(w.held, tid)
		_ = unix.PtraceCont(tid, 0)
	}
}

// execs reports whether a thread is inside exec.
func (w *watch) execs(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", w.pid, tid))
	call, _, _ := strings.Cut(string(text), " ")
	return err == nil && (call == strconv.Itoa(unix.SYS_EXECVE) || call == strconv.Itoa(unix.SYS_EXECVEAT))
}

func (w *watch) ending() Ending {
	e := Ending{PID: w.pid}
	for tid := range w.held {
		t := Thread{TID: tid}
		if regs, err := readRegset(tid, noteStatus); err == nil && len(regs) > regStack {
			t.SP, t.Words = regs[regStack], regs
		}
		if vectors, err := readRegset(tid, noteVectors); err == nil {
			t.Words = append(t.Words, vectors...)
		}
		e.Threads = append(e.Threads, t)
	}
	slices.SortFunc(e.Threads, func(a, b Thread) int { return a.TID - b.TID })
	return e
}

// Notes of PTRACE_GETREGSET; include/uapi/linux/elf.h.
const (
	noteStatus  = 1 // NT_PRSTATUS: the general registers
	noteVectors = 2 // NT_PRFPREG: the vector registers
)

// readRegset reads a set of registers of a stopped thread as words.
func readRegset(tid int, note uintptr) ([]uint64, error) {
	var words [128]uint64
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&words))}
	iov.SetLen(int(unsafe.Sizeof(words)))
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), note, uintptr(unsafe.Pointer(&iov)), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("read the registers of thread %d: %w", tid, errno)
	}
	return words[:iov.Len/8], nil
}
