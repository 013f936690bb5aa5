//go:build !viewer

package worker

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxMemory is what names may take, bytes, beyond what the process has at its start.
const maxMemory = 64 << 20

func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		os.Exit(serve())
	}
}

// serve answers requests on stdin on stdout until it ends, and returns an exit code.
func serve() int {
	if err := confine(); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	in, out := bufio.NewReader(os.Stdin), []byte(nil)
	for {
		name, form, err := read(in)
		if err == io.EOF {
			return 0
		}
		if err != nil {
			return 1
		}
		before := processTime()
		if arm(MaxTime) != nil {
			return 1
		}
		text := Demangle(name, form)
		if arm(0) != nil {
			return 1
		}
		if len(text) > MaxText {
			text = name
		}
		out = binary.LittleEndian.AppendUint64(out[:0], uint64(processTime()-before))
		out = binary.LittleEndian.AppendUint16(out, uint16(len(text)))
		if _, err := os.Stdout.Write(append(out, text...)); err != nil {
			return 1
		}
	}
}

func read(in *bufio.Reader) (name string, form Form, err error) {
	var header [RequestHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return "", 0, err
	}
	text := make([]byte, binary.LittleEndian.Uint16(header[1:]))
	_, err = io.ReadFull(in, text)
	return string(text), Form(header[0]), err
}

// confine has the kernel end this process where a name takes too much. It keeps it out of what ends memtrace, which
// may still ask for the names of its last Report: it ends with its stdin.
func confine() error {
	runtime.GOMAXPROCS(1)
	if err := setName(Name); err != nil {
		return err
	}
	// In a control group that is out of memory it goes, not memtrace.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	for signal, action := range map[unix.Signal]uintptr{
		unix.SIGPROF: defaultAction, unix.SIGTERM: ignored, unix.SIGINT: ignored, unix.SIGHUP: ignored,
	} {
		if err := setAction(signal, action); err != nil {
			return os.NewSyscallError("rt_sigaction", err)
		}
	}
	data, err := dataBytes()
	if err != nil {
		return err
	}
	limits := unix.Rlimit{Cur: data + maxMemory, Max: data + maxMemory}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limits); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

// setName has ps and top show the process by a name rather than as "exe", what the executable is called in /proc.
func setName(name string) error {
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(text)), 0, 0, 0))
}

// dataBytes is how much of RLIMIT_DATA the process uses.
func dataBytes() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nVmData:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseUint(kilobytes, 10, 40)
	return n << 10, err
}

// arm has the kernel end the process after so much processor time, or never for 0.
func arm(after time.Duration) error {
	_, err := unix.Setitimer(unix.ITIMER_PROF, unix.Itimerval{Value: unix.NsecToTimeval(int64(after))})
	return os.NewSyscallError("setitimer", err)
}

// processTime is the process's processor time.
func processTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

const (
	defaultAction = 0 // SIG_DFL
	ignored       = 1 // SIG_IGN
)

// setAction sets what a signal does, past the runtime, which keeps each for itself.
func setAction(signal unix.Signal, action uintptr) error {
	set := [4]uintptr{action} // struct sigaction of the kernel: handler, flags, restorer, mask
	const setBytes = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION,
		uintptr(signal), uintptr(unsafe.Pointer(&set)), 0, setBytes, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
