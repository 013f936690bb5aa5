package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolated is in the environment of the one that measures.
const isolated = "MEMTRACE_BENCH_ISOLATED"

// isolate runs this program again in a PID namespace with a /proc of its own,
// where a scene's processes are all there are: those of the rest of the machine
// would be measured as well, and change meanwhile. done says that this was the
// one that waits.
func isolate() (done bool, err error) {
	if os.Getenv(isolated) != "" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return false, fmt.Errorf("mount a /proc of its own: %w", err)
		}
		return false, nil
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL,
	}
	err = cmd.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = errors.New("it failed, as said above")
	}
	return true, err
}
