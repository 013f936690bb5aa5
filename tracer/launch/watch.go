package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/procfs/ptraced"
)

// Hooks are called while a process is stopped, which resumes when they
// return. They are called from goroutines of their own, for one process at a
// time; other processes run on meanwhile. Nil ones are not called.
type Hooks struct {
	// AtExit is called once for each program that exits, while its memory is still
	// there. docs/reachability.md says which exits it sees.
	AtExit func(Ending)
	// NewChild is called with a new child before its first instruction, whether it
	// has its own memory or shares its parent's. If it is nil, children are not watched.
	NewChild func(pid int)
	// Started is called at the first instruction of a program that replaced
	// another by exec, and after each mapping of code, until it returns true.
	Started func(pid int) (done bool)
	// GaveUp is called, while the program stands still, where nothing more is looked for in what it maps although
	// Started was not done: it has made too many system calls.
	GaveUp func(pid int)
	// Moved is called before the first Started if a thread other than the first
	// called exec. That thread is the first from then on. What the kernel had tied
	// to the old one is gone.
	Moved func(pid int)
	// Exiting reports whether a thread that got SIGURG got it as it called
	// exit; the program is then looked at there, before its exit handlers.
	Exiting func(tid int) bool
	// Execing is the same for exec. AtExec is then called, while the program that is
	// to be replaced is stopped. The call may fail: then the program runs on, and
	// AtExec or AtExit is called again.
	Execing func(tid int) bool
	AtExec  func(Ending)
	// Unknown is asked about any other SIGURG. If a thread got it as it loaded
	// code, or ran code that was not known yet, it returns what is to be done while the
	// thread is stopped. Otherwise it returns nil, and the program gets the signal.
	Unknown func(tid int) (learn func())
	// Stays reports, once attach or Started is done, whether a program stays under ptrace. If not, it is
	// detached.
	Stays func(pid int) bool
	// Tracing is asked about any SIGURG first. It returns which process or thread the one that got it is about to
	// take under ptrace. That one is detached before the call.
	Tracing func(tid int) (target int, ok bool)
	// MayPtrace reports whether a program may call ptrace without a SIGURG that Tracing knows, as what sends it is not
	// in place yet. As long as that is so it is stopped at each of its system calls, twice.
	MayPtrace func(pid int) bool
	// BeforeDetach is called before a program is detached, unless that is because attach was done.
	BeforeDetach func(pid int)
}

// Ending is a program that is stopped at its exit.
type Ending struct {
	PID     int
	Before  bool      // it has called exit, and its exit handlers are still to come
	Threads []Thread  // those that are stopped; each has the program's memory
	Since   time.Time // when the first of them stopped
}

// Thread is the state of one thread when it began to end.
type Thread struct {
	TID   int
	SP    uint64   // stack pointer
	Words []uint64 // all registers, vector registers among them
	Exits bool     // it has called exit, of the C library or of the kernel
	Execs bool     // it stands at the first instruction of exec
}

// A Watcher keeps the threads of programs under ptrace until the programs end.
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
//
// All ptrace calls come from one thread, which waits for SIGCHLD. When it
// ends, whether by Close or because memtrace is killed, the kernel lets go of
// all programs, and those that stood still run on.
type Watcher struct {
	hooks    Hooks
	thread   *ownthread.Thread // watches; ptrace belongs to the thread that attached
	root     int               // our own child, whose end others wait for; 0: none
	programs map[int]*program
	owner    map[int]*program // by thread
	handlers map[int]int      // by thread that handles a fault: at how many more stops it is followed

	interrupted map[int]ptraced.Call // by thread that was asked to stop: what it waited in

	wake  chan os.Signal
	calls chan func() // to be run on the watching thread
	stop  chan struct{}
	ended chan struct{} // closed when nothing is watched any more
}

const (
	watchOptions  = unix.PTRACE_O_TRACEEXIT | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD
	followOptions = unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK

	// seizeTime is how long it may take to seize all threads of all processes. The kernel waits without end for
	// one that is stopped and in a frozen control group.
	seizeTime = 5 * time.Second

	// gatherTime is how long the program's other threads may take to stop or to end: one
	// in an uninterruptible wait does not keep the check from happening.
	gatherTime = 500 * time.Millisecond
	gatherPoll = 200 * time.Microsecond
	// starvedTime is how long they may take where all that they lack is a processor.
	starvedTime = 10 * time.Second
	starvedPoll = 10 * time.Millisecond

	ptraceListen    = 0x4208 // include/uapi/linux/ptrace.h
	ptraceEventStop = 128
)

func newWatcher(hooks Hooks) *Watcher {
	return &Watcher{
		hooks: hooks, programs: make(map[int]*program), owner: make(map[int]*program), handlers: make(map[int]int),
		interrupted: make(map[int]ptraced.Call),
		wake:        make(chan os.Signal, 1), calls: make(chan func()),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Attend watches processes that run already, without stopping them. Their
// threads must have no other tracer. Errors are joined, and processes without
// one are watched all the same. A nil Watcher watches nothing.
func Attend(pids []int, hooks Hooks) (*Watcher, error) {
	w := newWatcher(hooks)
	var seized error
	none := false
	thread, err := ownthread.After(seizeTime, func() {
		var errs []error
		for _, pid := range pids {
			errs = append(errs, w.seizeAll(pid))
		}
		seized, none = errors.Join(errs...), len(w.programs) == 0
	}, w.run)
	if err != nil {
		return nil, fmt.Errorf("watch the processes %v for their ends by ptrace: %w, as from one that is both stopped "+
			"and in a frozen control group: thaw it and try again", pids, err)
	}
	w.thread = thread
	if none && seized != nil {
		return nil, seized
	}
	return w, seized
}

// Close lets go of all programs at once. Hooks that are being called go on to
// their end, with no effect.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	close(w.stop)
	w.thread.Wait() // the kernel lets go as it ends
}

func (w *Watcher) options() int {
	if w.hooks.NewChild == nil {
		return watchOptions
	}
	return watchOptions | followOptions
}

// begin resumes the program that we started, which stands at a stop.
func (w *Watcher) begin(pid int) error {
	w.root = pid
	w.own(pid, w.programAt(pid))
	if err := unix.PtraceSetOptions(pid, w.options()); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("watch process %d for its end by ptrace: %w", pid, err)
	}
	w.resume(pid, 0)
	return nil
}

// run resumes threads from stop to stop until there is nothing left to watch.
func (w *Watcher) run() {
	defer close(w.ended)
	signal.Notify(w.wake, unix.SIGCHLD)
	defer signal.Stop(w.wake)
	for {
		if more := w.drain(); !more {
			return
		}
		var poll <-chan time.Time
		if interval := w.pollInterval(); interval > 0 {
			poll = time.After(interval)
		}
		select {
		case <-w.wake:
		case <-poll:
		case call := <-w.calls:
			call()
		case <-w.stop:
			return
		}
	}
}

// drain handles all that has happened. It reports whether more can.
func (w *Watcher) drain() bool {
	for {
		tid, code, err := peek()
		switch {
		case err != nil:
			return false // ECHILD: nothing is left to watch
		case tid == 0:
			for _, p := range w.programs {
				w.gather(p)
				w.yieldToTracers(p)
			}
			return true
		case code == cldTrapped || code == cldStopped:
			w.step(tid)
		case tid == w.root:
			return false // its end is for Process.Wait
		default:
			_, _ = unix.Wait4(tid, nil, unix.WALL|unix.WNOTHREAD, nil)
			w.disown(tid)
		}
	}
}

// peek looks whether something has happened to one of this thread's tracees,
// and leaves it to be waited for. It returns 0 where nothing has.
func peek() (tid int, code int32, err error) {
	const options = unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT | unix.WALL | unix.WNOTHREAD | unix.WNOHANG
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
func (w *Watcher) step(tid int) {
	var status unix.WaitStatus
	if n, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil); err != nil || n != tid || !status.Stopped() {
		return
	}
	signal := int(status.StopSignal())
	if w.detachAtStop(tid, status) {
		return
	}
	switch event := int(status) >> 16; {
	case event == unix.PTRACE_EVENT_EXIT:
		w.exiting(tid)
	case event == unix.PTRACE_EVENT_EXEC:
		w.execed(tid)
	case event == ptraceEventStop && stopsGroup(signal):
		// Stay stopped as without ptrace, until SIGCONT.
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, ptraceListen, uintptr(tid), 0, 0, 0, 0)
	case event == ptraceEventStop:
		w.cameToStop(tid)
	case event != 0:
		w.resume(tid, 0)
	case signal == int(syscallStop):
		w.called(tid)
	case signal == int(unix.SIGURG) && (w.ptraceCalled(tid) || w.exitCalled(tid) || w.execCalled(tid) || w.metUnknown(tid)):
	default:
		w.deliver(tid, signal)
	}
}

func stopsGroup(signal int) bool {
	return slices.Contains([]int{int(unix.SIGSTOP), int(unix.SIGTSTP), int(unix.SIGTTIN), int(unix.SIGTTOU)}, signal)
}

// resume lets a thread go on, up to its next system call where its program is
// on the way to map its libraries, may call ptrace unseen, or handles a fault.
func (w *Watcher) resume(tid, signal int) {
	if p := w.owner[tid]; p != nil && (p.starting || w.handlers[tid] > 0 || w.mayPtrace(p.pid)) {
		_ = unix.PtraceSyscall(tid, signal)
		return
	}
	_ = unix.PtraceCont(tid, signal)
}

// call runs a hook beside the watch, and then after on the watching thread.
func (w *Watcher) call(hook, after func()) {
	go func() {
		hook()
		select {
		case w.calls <- after:
		case <-w.ended:
		}
	}()
}

// metUnknown keeps a thread until what it ran into is known. It reports
// whether that was why it got a signal.
func (w *Watcher) metUnknown(tid int) bool {
	if w.hooks.Unknown == nil {
		return false
	}
	learn := w.hooks.Unknown(tid)
	if learn == nil {
		return false
	}
	p := w.program(tid)
	w.call(learn, func() {
		if w.owner[tid] == p { // else another thread has executed a program since, whose leader has the number now
			w.resume(tid, 0)
		}
	})
	return true
}

// cameToStop handles the first stop of a new thread or process, and that of a
// thread that was asked to stop.
func (w *Watcher) cameToStop(tid int) {
	pid := processOf(tid)
	switch p := w.programs[pid]; {
	case pid == 0: // it has been killed
		w.resume(tid, 0)
	case p != nil && tid != pid || p != nil && w.owner[tid] == p:
		w.own(tid, p)
		w.restart(tid) // an exec may fail, and others may have come to their stop before
		if (p.before || p.execing) && !p.hookCalled {
			p.held[tid] = true
			w.gather(p)
			return
		}
		w.resume(tid, 0)
	case w.hooks.NewChild == nil:
		_ = unix.PtraceDetach(tid) // a process that clone(2) made, not a thread
	default:
		w.newChild(tid)
	}
}

// newChild begins to watch a new process.
func (w *Watcher) newChild(pid int) {
	p := w.programAt(pid)
	w.own(pid, p)
	w.inheritHandler(pid)
	p.shared = sharesMemory(pid) // then it is its parent until it executes a program
	w.call(func() { w.hooks.NewChild(pid) }, func() { w.resume(pid, 0) })
}

// execed begins anew with a program that replaced another. Its other threads
// are gone.
func (w *Watcher) execed(pid int) {
	w.disownAll(pid)
	if before := w.programs[pid]; before != nil {
		clear(before.held) // what stood still has ended; what is still called for that lets nobody go
	}
	late := w.hooks.Execing != nil && w.hooks.Execing(pid) // its signal is still to come
	p := w.programAt(pid)
	p.stray, p.moved = late, wasAnother(pid)
	w.own(pid, p)
	// The exec's own exit stop follows.
	p.starting, p.inCall = w.hooks.Started != nil, true
	w.started(p)
}

// wasAnother reports whether the thread that stands at its exec was another one
// than its process's first until then.
func wasAnother(pid int) bool {
	before, err := unix.PtraceGetEventMsg(pid)
	return err == nil && int(before) != pid
}

// started asks whether all that was wanted of a new program has been found.
func (w *Watcher) started(p *program) {
	if !p.starting {
		w.resume(p.pid, 0)
		return
	}
	done, moved, stays := false, p.moved && w.hooks.Moved != nil, true
	p.moved = false
	w.call(func() {
		if moved {
			w.hooks.Moved(p.pid)
		}
		if done = w.hooks.Started(p.pid); done && w.hooks.Stays != nil && !w.hooks.Stays(p.pid) {
			stays = false
			w.hooks.beforeDetach(p.pid)
		}
		if !done && p.stops+1 >= maxStops && w.hooks.GaveUp != nil {
			w.hooks.GaveUp(p.pid)
		}
	}, func() {
		p.stops++
		p.starting = !done && p.stops < maxStops
		if !stays {
			w.detachStopped(p, p.pid)
			return
		}
		w.resume(p.pid, 0)
	})
}

// called handles a stop at a system call.
func (w *Watcher) called(tid int) {
	p := w.owner[tid]
	starting := p != nil && p.starting && tid == p.pid
	if starting {
		p.stops++
		p.inCall = !p.inCall
	}
	call := callAt(tid)
	if target, ok := call.takes(tid); ok {
		w.yield(tid, target)
		return
	}
	if w.handlerCalled(tid, call) {
		w.yield(tid, p.pid)
		return
	}
	if !starting {
		w.resume(tid, 0)
		return
	}
	if !p.inCall {
		if mapped, err := mappedCode(tid); err == nil && mapped {
			w.started(p)
			return
		}
	}
	if p.starting = p.stops < maxStops; !p.starting && w.hooks.GaveUp != nil {
		w.call(func() { w.hooks.GaveUp(p.pid) }, func() { w.resume(tid, 0) })
		return
	}
	w.resume(tid, 0)
}
