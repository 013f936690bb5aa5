package launch

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ptraced"
)

// program is one process under watch.
type program struct {
	pid        int
	shared     bool         // its memory is its parent's, as after vfork
	held       map[int]bool // threads that are stopped
	since      time.Time    // when the first of them came
	before     bool         // one of them is at exit's entry
	caller     int          // that one
	hookCalled bool         // AtExit or AtExec was called

	detaching bool  // it is being detached, thread by thread as they stop
	callers   []int // threads that are about to take it under ptrace, stopped until it is detached

	execing bool // one of them is at exec's entry
	execer  int  // which one
	moved   bool // a thread other than the first executed it, and Moved has not been called yet
	stray   bool // a signal of the program before it, which called exec, is on its way

	starting bool // it has just been executed, and maps its libraries
	inCall   bool // between the stops at the entry and the exit of a system call
	stops    int

	caught     uint64 // signals that it has had handlers for, of those that came
	unfinished int    // handlers of faults that were followed to no return
}

// programAt begins to watch a process.
func (w *Watcher) programAt(pid int) *program {
	p := &program{pid: pid, held: make(map[int]bool)}
	w.programs[pid] = p
	return p
}

// own notes whose thread tid is.
func (w *Watcher) own(tid int, p *program) { w.owner[tid] = p }

// forget ends what is known of a thread.
func (w *Watcher) forget(tid int) {
	delete(w.owner, tid)
	delete(w.handlers, tid)
	delete(w.interrupted, tid)
}

// interrupt asks a thread to stop. It may have been killed.
func (w *Watcher) interrupt(tid int) {
	if before, err := ptraced.Interrupt(tid); err == nil {
		w.interrupted[tid] = before
	}
}

// restart has a thread begin its system call again, if interrupt broke one off.
func (w *Watcher) restart(tid int) {
	if before, asked := w.interrupted[tid]; asked {
		ptraced.Restart(tid, before)
		delete(w.interrupted, tid)
	}
}

// disown forgets a thread that has ended.
func (w *Watcher) disown(tid int) {
	p := w.owner[tid]
	w.forget(tid)
	if p == nil {
		return
	}
	delete(p.held, tid)
	if tid == p.pid && w.programs[tid] == p {
		delete(w.programs, tid)
		p.since = time.Time{} // its callers need not wait any longer
		w.yieldToTracers(p)
	}
}

// disownAll forgets all threads of a process.
func (w *Watcher) disownAll(pid int) {
	for tid, p := range w.owner {
		if p.pid == pid {
			w.forget(tid)
		}
	}
}

// program returns the program of a thread, or nil.
func (w *Watcher) program(tid int) *program {
	if p := w.owner[tid]; p != nil {
		return p
	}
	p := w.programs[processOf(tid)]
	if p != nil {
		w.own(tid, p)
	}
	return p
}

// seizeAll takes the threads of a process under ptrace, as they run.
func (w *Watcher) seizeAll(pid int) error {
	p := w.programAt(pid)
	for found := true; found; { // until no thread can have been made since
		found = false
		for _, tid := range threadsOf(pid) {
			if w.owner[tid] != nil {
				continue
			}
			err := seize(tid, w.options())
			if err == unix.ESRCH {
				continue // it ended
			}
			if err != nil && processOf(tid) == pid && tracerOf(tid) == unix.Gettid() {
				err = nil // a thread that we watch has made it, and us its tracer
			}
			if err != nil {
				delete(w.programs, pid)
				return fmt.Errorf("watch process %d for its end by ptrace: thread %d%s: %w", pid, tid, tracedBy(tid), err)
			}
			w.own(tid, p)
			found = true
		}
	}
	if len(w.owner) == 0 {
		delete(w.programs, pid)
		return fmt.Errorf("watch process %d for its end by ptrace: %w", pid, os.ErrProcessDone)
	}
	return nil
}

// tracedBy names the other tracer of a thread, if there is one.
func tracedBy(tid int) string {
	if other := tracerOf(tid); other != 0 {
		return fmt.Sprintf(" is traced by process %d already; end that first", other)
	}
	return ""
}

// exiting holds a thread that ends, unless it ends alone.
func (w *Watcher) exiting(tid int) {
	p := w.program(tid)
	switch {
	case p == nil || p.shared || p.hookCalled || w.hooks.AtExit == nil,
		endsAlone(tid) && len(p.held) == 0 && len(p.others(tid)) > 0:
		_ = unix.PtraceCont(tid, 0)
		return
	}
	p.hold(tid)
	w.gather(p)
}

func (p *program) hold(tid int) {
	if len(p.held) == 0 {
		p.since = time.Now()
	}
	p.held[tid] = true
}

// exitCalled stops a program one of whose threads has called exit. The others
// are asked to stop, too. It reports whether that was so.
func (w *Watcher) exitCalled(tid int) bool {
	if w.hooks.Exiting == nil || !w.hooks.Exiting(tid) {
		return false
	}
	p := w.program(tid)
	if p == nil || p.shared || p.hookCalled || p.before {
		w.resume(tid, 0)
		return true
	}
	p.before, p.caller = true, tid
	p.hold(tid)
	for _, other := range p.others(0) {
		w.interrupt(other)
	}
	w.gather(p)
	return true
}

// execCalled stops a program one of whose threads has called exec, if that may
// become another program, and asks the others to stop. It reports whether the
// thread's signal was for that.
func (w *Watcher) execCalled(tid int) bool {
	p := w.program(tid)
	if w.hooks.Execing == nil || p == nil {
		return false
	}
	if !w.hooks.Execing(tid) {
		if stray := p.stray; !stray {
			return false
		}
		p.stray = false
		w.resume(tid, 0)
		return true
	}
	if p.execing { // another thread was first; to go on would end that one while it is looked at
		p.hold(tid)
		w.gather(p)
		return true
	}
	if p.shared || p.hookCalled || p.before || w.hooks.AtExec == nil {
		w.resume(tid, 0)
		return true
	}
	may := true
	regs, err := readRegset(tid, noteStatus)
	// Its file may be on a file system that never answers, and all other programs are watched from here.
	w.call(func() { may = err != nil || mayExecute(tid, regs) }, func() { w.executing(p, tid, may) })
	return true
}

// executing holds a thread at its exec, of which is known whether it may succeed.
func (w *Watcher) executing(p *program, tid int, may bool) {
	switch {
	case w.owner[tid] != p || p.held[tid]: // it ended meanwhile
	case p.execing:
		p.hold(tid)
		w.gather(p)
	case !may || p.hookCalled || p.before:
		w.resume(tid, 0)
	default:
		p.execing, p.execer = true, tid
		p.hold(tid)
		for _, other := range p.others(0) {
			w.interrupt(other)
		}
		w.gather(p)
	}
}

// mayExecute reports whether the file that a thread at the entry of execve names
// is there: execvp tries the folders of PATH one after the other. It is true if that
// cannot be found out. It is called outside of the watch's goroutine.
func mayExecute(tid int, regs []uint64) bool {
	if len(regs) <= regArgument {
		return true
	}
	var name [unix.PathMax]byte
	local := unix.Iovec{Base: &name[0]}
	local.SetLen(len(name))
	remote := unix.RemoteIovec{Base: uintptr(regs[regArgument]), Len: len(name)}
	n, err := unix.ProcessVMReadv(tid, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	end := bytes.IndexByte(name[:max(n, 0)], 0)
	if err != nil || end <= 0 {
		return true // fexecve has a descriptor there
	}
	path := fmt.Sprintf("/proc/%d/cwd/%s", tid, name[:end])
	if name[0] == '/' {
		path = fmt.Sprintf("/proc/%d/root%s", tid, name[:end])
	}
	_, err = os.Lstat(path) // what a link leads to, another root may have elsewhere
	return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
}

// endsAlone reports whether the thread called exit, which ends that thread,
// rather than exit_group, or was killed.
func endsAlone(tid int) bool {
	regs, err := readRegset(tid, noteStatus)
	return err == nil && callOf(regs) == unix.SYS_EXIT
}

// callOf is the system call that a thread is in.
func callOf(regs []uint64) uint64 {
	if len(regs) <= regCall {
		return math.MaxUint64
	}
	return regs[regCall]
}

// others lists the threads that are not stopped, except tid.
func (p *program) others(tid int) []int {
	return slices.DeleteFunc(threadsOf(p.pid), func(other int) bool {
		return other == tid || p.held[other] || ended(p.pid, other)
	})
}

// pollInterval is how often the threads of programs that are waited for are looked at; 0: none are.
func (w *Watcher) pollInterval() (interval time.Duration) {
	for _, p := range w.programs {
		if len(p.held) > 0 && !p.hookCalled || len(p.callers) > 0 {
			if time.Since(p.since) < gatherTime {
				return gatherPoll
			}
			interval = starvedPoll
		}
	}
	return interval
}

// waitsFor reports whether threads that were asked to stop, or that end, are waited for: after gatherTime only those
// that would run if they had a processor.
func (p *program) waitsFor(threads []int) bool {
	waited := time.Since(p.since)
	if len(threads) == 0 || waited >= starvedTime {
		return false
	}
	return waited < gatherTime || slices.ContainsFunc(threads, func(tid int) bool { return ptraced.State(tid) == 'R' })
}

// gather calls AtExit or AtExec once all threads are stopped, and resumes them.
func (w *Watcher) gather(p *program) {
	if len(p.held) == 0 || p.hookCalled {
		return
	}
	missing := p.others(0)
	if !p.before && !p.execing && slices.ContainsFunc(missing, p.execs) {
		w.resumeHeld(p)
		return
	}
	if p.waitsFor(missing) {
		return
	}
	p.hookCalled = true
	ending := p.ending()
	if p.execing {
		w.call(func() { w.hooks.AtExec(ending) }, func() {
			p.hookCalled, p.execing = false, false
			w.resumeHeld(p)
		})
		return
	}
	w.call(func() { w.hooks.AtExit(ending) }, func() { w.resumeHeld(p) })
}

// resumeHeld resumes the stopped threads.
func (w *Watcher) resumeHeld(p *program) {
	for tid := range p.held {
		delete(p.held, tid)
		w.resume(tid, 0)
	}
}

// execs reports whether a thread is inside exec.
func (p *program) execs(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", p.pid, tid))
	call, _, _ := strings.Cut(string(text), " ")
	return err == nil && (call == strconv.Itoa(unix.SYS_EXECVE) || call == strconv.Itoa(unix.SYS_EXECVEAT))
}

func (p *program) ending() Ending {
	e := Ending{PID: p.pid, Before: p.before, Since: p.since}
	for tid := range p.held {
		t := Thread{TID: tid, Exits: p.before && tid == p.caller, Execs: p.execing && tid == p.execer}
		if regs, err := readRegset(tid, noteStatus); err == nil && len(regs) > regStack {
			t.SP, t.Words = regs[regStack], regs
			// One that waits at its end has called that, unless it was killed.
			t.Exits = t.Exits || !p.before && (callOf(regs) == unix.SYS_EXIT_GROUP || callOf(regs) == unix.SYS_EXIT)
		}
		if vectors, err := readRegset(tid, noteVectors); err == nil {
			t.Words = append(t.Words, vectors...)
		}
		e.Threads = append(e.Threads, t)
	}
	slices.SortFunc(e.Threads, func(a, b Thread) int { return a.TID - b.TID })
	return e
}

// threadsOf lists a process's threads; none where it has ended.
func threadsOf(pid int) (tids []int) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// ended reports whether a thread is a zombie or gone.
func ended(pid, tid int) bool {
	state := ptraced.State(tid)
	return state == 0 || state == 'Z' || state == 'X'
}

// statusOf reads a number of /proc/TID/status; 0 where there is none.
func statusOf(tid int, field string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest)) // the kernel writes numbers there
			return n
		}
	}
	return 0
}

// Holds reports whether a process's first thread stands still under ptrace of a thread of ours, as a new child does
// that its Watcher has yet to see.
func Holds(pid int) bool {
	if ptraced.State(pid) != 't' {
		return false
	}
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tracerOf(pid)))
	return err == nil
}

func processOf(tid int) int { return statusOf(tid, "Tgid") }
func tracerOf(tid int) int  { return statusOf(tid, "TracerPid") }

// sharesMemory reports whether a new process has its parent's memory rather
// than a copy. Where the kernel cannot tell (it lacks kcmp), it has a copy.
func sharesMemory(pid int) bool {
	const kcmpVM = 1 // include/uapi/linux/kcmp.h
	same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(statusOf(pid, "PPid")), uintptr(pid), kcmpVM, 0, 0, 0)
	return errno == 0 && same == 0
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
