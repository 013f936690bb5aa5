//go:build linux && !viewer

package reach

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ptraced"
)

// Stop stops a thread by ptrace and reads its registers. It is called within
// ownthread.Do, as is Release, which ends the stop: ptrace belongs to the calling
// OS thread, and the kernel lets go of what is still seized when that ends. A thread
// that does not stop within stopTime, or starvedTime where it waits for a processor,
// is an error, and stays seized until then. One that has ended is unix.ESRCH.
func Stop(tid int) (Thread, error) {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, 0, 0, 0); errno != 0 {
		return Thread{}, fmt.Errorf("stop thread %d by ptrace: %w", tid, errno)
	}
	before, err := ptraced.Interrupt(tid)
	if err != nil {
		return Thread{}, fmt.Errorf("stop thread %d by ptrace: %w", tid, err)
	}
	status, err := awaitStop(tid)
	if err != nil {
		return Thread{}, fmt.Errorf("wait for thread %d to stop: %w", tid, err)
	}
	t, err := readRegisters(tid)
	t.before = before
	switch {
	case status>>16 == 0: // no event: it stopped with a signal on its way to it
		t.signal = status.StopSignal()
	case status.StopSignal() == unix.SIGTRAP: // else it was stopped before
		t.interrupted = true
	}
	return t, err
}

const (
	// stopTime is how long a thread is waited for, with the others stopped; starvedTime, one that lacks nothing but a
	// processor.
	stopTime, starvedTime = 500 * time.Millisecond, 3 * time.Second
	// stopSpin is how long most take at the most: until then it is asked again at once.
	stopSpin = 200 * time.Microsecond
)

var (
	errNoStop  = fmt.Errorf("it has not within %v, as one in an uninterruptible wait (state D: I/O, or a vfork) does not: try again once that is over", stopTime)
	errStarved = fmt.Errorf("it got no processor for %v: try again when the machine, or its control group, has more of them", starvedTime)
)

// awaitStop waits for a thread that was interrupted. A wait that blocks would have no
// end where the thread's own has none.
func awaitStop(tid int) (status unix.WaitStatus, err error) {
	for began := time.Now(); ; {
		got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil)
		waited := time.Since(began)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return status, err
		case got != 0 && !status.Stopped():
			return status, unix.ESRCH
		case got != 0:
			return status, nil
		case waited > starvedTime:
			return status, errStarved
		case waited > stopTime && ptraced.State(tid) != 'R':
			return status, errNoStop
		case waited > stopSpin:
			time.Sleep(stopSpin)
		default: // the thread may need this processor
			_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// Release ends a stop. The signal with which the thread stopped, if any, is
// delivered then; a call that the stop broke off begins again, if it can
// (ptraced.Restart). It may have been killed, which is no error.
func Release(t Thread) {
	if t.interrupted {
		ptraced.Restart(t.TID, t.before)
	}
	_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(t.TID), 0, uintptr(t.signal), 0, 0)
}

// Notes of PTRACE_GETREGSET; include/uapi/linux/elf.h.
const (
	noteStatus  = 1 // NT_PRSTATUS: the general registers
	noteVectors = 2 // NT_PRFPREG: the vector registers
)

// readRegisters reads the registers of a stopped thread.
func readRegisters(tid int) (Thread, error) {
	t := Thread{TID: tid}
	for _, note := range []uintptr{noteStatus, noteVectors} {
		var words [128]uint64
		iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&words))}
		iov.SetLen(int(unsafe.Sizeof(words)))
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), note, uintptr(unsafe.Pointer(&iov)), 0, 0)
		if errno != 0 {
			return t, fmt.Errorf("read the registers of thread %d: %w", tid, errno)
		}
		t.Words = append(t.Words, words[:iov.Len/8]...)
	}
	t.SP = t.Words[regStack]
	return t, nil
}
