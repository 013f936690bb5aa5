package reach

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stop stops a thread by ptrace and reads its registers. The calling
// goroutine must be locked to its OS thread, and ends the stop with Release
// from there; the kernel does where that thread ends first.
func Stop(tid int) (Thread, error) {
	const ptraceInterrupt = 0x4207 // include/uapi/linux/ptrace.h
	for _, request := range []uintptr{unix.PTRACE_SEIZE, ptraceInterrupt} {
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(tid), 0, 0, 0, 0); errno != 0 {
			return Thread{}, fmt.Errorf("stop thread %d by ptrace: %w", tid, errno)
		}
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(tid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			return Thread{}, fmt.Errorf("wait for thread %d to stop: it ended: %w", tid, err)
		}
		break
	}
	t, err := readRegisters(tid)
	if status>>16 == 0 { // no event: it stopped with a signal on its way to it
		t.signal = status.StopSignal()
	}
	return t, err
}

// Release ends a stop. The signal with which the thread stopped, if any, is
// delivered then. It may have been killed, which is no error.
func Release(t Thread) {
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
