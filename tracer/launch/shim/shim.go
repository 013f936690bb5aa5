// Package shim makes a process of memtrace's own executable the program that memtrace is to start.
//
// It does so as its init, before most other packages have theirs: Go initializes packages in the order of their import
// paths as soon as all that they import is, and this one imports little and next to nothing that others wait for. The
// whole executable's start takes some 50 ms of processor time, each program that is started would pay it twice, and the
// program begins that much later.
package shim

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"
)

// Name is argv[0] of an executable with this package in it that is to become a program.
const Name = "memtrace-exec"

// Args is argv of a shim. It writes a byte to gate, a descriptor, waits for one there, and becomes the program: the
// file at path, with its own argv. Bit s-1 of ignored has it ignore signal s.
func Args(gate int, ignored uint64, path string, argv []string) []string {
	return append([]string{Name, strconv.Itoa(gate), strconv.FormatUint(ignored, 16), path}, argv...)
}

// Exit codes of a program that could not be started, as shells use them.
const (
	NotExecutable = 126
	NotFound      = 127
)

// The first thread runs it, whose exec ptrace is told of: the runtime keeps package initialization there.
func init() {
	if args := OwnArgs(Name); len(args) >= 5 {
		become(args)
	}
}

// OwnArgs is argv, where argv[0] is the given name. Package os, which knows it too, has not been initialized yet.
func OwnArgs(name string) (args []string) {
	file, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(file)
	first := append([]byte(name), 0)
	text := make([]byte, len(first), 4096)
	if n, err := syscall.Read(file, text); n != len(first) || err != nil || !bytes.Equal(text, first) {
		return nil
	}
	for {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, 2*cap(text)), text...)
		}
		n, err := syscall.Read(file, text[len(text):cap(text)])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			break
		}
		text = text[:len(text)+n]
	}
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}

// become does what Args says. It does not return.
func become(args []string) {
	gate, err := strconv.Atoi(args[1])
	if err != nil || !passGate(gate) { // memtrace is gone
		syscall.Exit(NotExecutable)
	}
	ignored, err := strconv.ParseUint(args[2], 16, 64)
	if err == nil {
		err = Ignore(ignored)
	}
	if err == nil {
		err = syscall.Exec(args[3], args[4:], syscall.Environ())
	}
	_, _ = syscall.Write(2, []byte("memtrace: execute "+args[3]+": "+err.Error()+"\n"))
	if err == syscall.ENOENT {
		syscall.Exit(NotFound)
	}
	syscall.Exit(NotExecutable)
}

func passGate(gate int) bool {
	var one [1]byte
	n, err := syscall.Write(gate, one[:])
	for n != 1 {
		if err != syscall.EINTR {
			return false
		}
		n, err = syscall.Write(gate, one[:])
	}
	n, err = syscall.Read(gate, one[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(gate, one[:])
	}
	return n == 1 && syscall.Close(gate) == nil
}

const (
	maxSignal = 64
	ignored   = 1 // SIG_IGN
)

// Ignore has the kernel ignore the signals of a set, of which bit s-1 is signal s: past the runtime, which is not asked.
func Ignore(set uint64) error {
	for number := 1; number <= maxSignal; number++ {
		if set>>(number-1)&1 == 0 {
			continue
		}
		action := [4]uintptr{ignored} // struct sigaction of the kernel: handler, flags, restorer, mask
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION,
			uintptr(number), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return errno
		}
	}
	return nil
}
