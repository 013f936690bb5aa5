//go:build linux && !viewer

package procfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// needs says what it takes to read a file of another user's process
// (measured on Linux 6.18; see Documentation/filesystems/proc.rst and
// ptrace(2), "Ptrace access mode checking").
var needs = map[string]string{
	"maps":         "CAP_SYS_PTRACE, or CAP_PERFMON since Linux 6.15",
	"smaps":        "CAP_SYS_PTRACE, or CAP_PERFMON since Linux 6.15",
	"smaps_rollup": "CAP_SYS_PTRACE, or CAP_PERFMON since Linux 6.15",
	"numa_maps":    "CAP_SYS_PTRACE, or CAP_PERFMON since Linux 6.15",
	"pagemap":      "CAP_SYS_PTRACE (or CAP_PERFMON since Linux 6.15) and CAP_DAC_READ_SEARCH",
	"exe":          "CAP_SYS_PTRACE",
	"ns/pid":       "CAP_SYS_PTRACE",
	"syscall":      "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
}

// wrap turns a failed system call on one of p's files into an error that says
// what was tried, and whether the process is gone, the file is not there on
// this kernel, or a capability is missing.
func (p *Process) wrap(verb, file string, err error) error {
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrKernelThread):
		return fmt.Errorf("%s %s of process %d: %w", verb, file, p.pid, err)
	case errors.Is(err, unix.ESRCH) && file == "stat": // which whyNoMemory reads
		err = ErrGone
	case errors.Is(err, unix.ESRCH):
		err = p.whyNoMemory()
	case errors.Is(err, unix.ENOENT):
		err = p.whyNoFile()
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if need, ok := needs[file]; ok {
			return fmt.Errorf("%s %s of process %d: %w: run as root or as the process's own user, or as memtrace doctor says (it takes %s)",
				verb, file, p.pid, err, need)
		}
	}
	return fmt.Errorf("%s %s of process %d: %w", verb, file, p.pid, err)
}

// whyNoFile says why a file is missing: the process has ended, or this kernel
// (or its configuration) doesn't have the file.
func (p *Process) whyNoFile() error {
	for _, dir := range []int{p.dir, p.memoryDir()} {
		if unix.Faccessat(dir, "stat", unix.F_OK, 0) != nil {
			return ErrGone
		}
	}
	return ErrNotSupported
}

// whyNoMemory says why a process that may still exist has no memory.
func (p *Process) whyNoMemory() error {
	if st, err := p.Stat(); err == nil && st.KernelThread() {
		return ErrKernelThread
	}
	return ErrGone
}

// OutcomeOf sorts the error of a reader; nil is Known.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Known
	case errors.Is(err, ErrGone), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENODEV):
		return Gone
	case errors.Is(err, ErrKernelThread):
		return NoMemory
	case errors.Is(err, os.ErrPermission):
		return NoPermission
	case errors.Is(err, ErrNotSupported), errors.Is(err, os.ErrNotExist), errors.Is(err, unix.EOPNOTSUPP):
		return NotSupported
	}
	return Failed
}
