package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/tracer/launch/shim"
)

// Program is what to start. Nil files mean /dev/null.
type Program struct {
	Path                  string   // of the file to execute; see exec.LookPath
	Args                  []string // argv, the name included
	Env                   []string // nil means our own
	Stdin, Stdout, Stderr *os.File
	Ignored               []unix.Signal // signals that it is to ignore from its start; see the function Ignored

	// Watch has ptrace stay until the program ends, and is called then. Nil
	// lets the program go as soon as attach is content.
	Watch *Hooks
}

// Process is a started program.
type Process struct {
	*os.Process
	watched <-chan struct{} // closed once ptrace has nothing to do with it any more
}

// Wait waits for the program's end. It hides os.Process.Wait, which would take
// a tracee's stops for its end (wait(2) reports them whatever was asked for).
func (p *Process) Wait() (*os.ProcessState, error) {
	<-p.watched
	return p.Process.Wait()
}

// ErrExited means that the program ended before there was anything to attach to.
var ErrExited = errors.New("the program ended before its allocator was loaded")

// ErrNothingFound means that the program went through its start-up without
// mapping anything the caller wanted. It runs on.
var ErrNothingFound = errors.New("the program started without loading what was looked for")

// maxStops bounds the system calls that a program is watched for.
const maxStops = 100_000

// Start starts a program and calls attach at its first instruction and after
// each mapping of code, while the program stands still. attach returns true
// once nothing more is wanted; an error from it kills the program, of which
// nothing has run yet. After ErrNothingFound the Process is valid and runs.
func Start(p Program, attach func(pid int) (done bool, err error)) (*Process, error) {
	type result struct {
		proc *os.Process
		err  error
	}
	out := make(chan result, 1)
	watched := make(chan struct{})
	ownthread.Go(func() {
		defer close(watched)
		proc, watch, err := start(p, attach)
		out <- result{proc, err}
		if watch != nil {
			watch.run()
		}
	})
	r := <-out
	if r.proc == nil {
		return nil, r.err
	}
	return &Process{r.proc, watched}, r.err
}

// start returns the program, and what watches it to its end where that is wanted.
func start(p Program, attach func(pid int) (bool, error)) (*os.Process, *Watcher, error) {
	proc, gate, err := startShim(p)
	if err != nil {
		return nil, nil, err
	}
	pid := proc.Pid
	// Seized any earlier, the shim's own exec would pass for the program's.
	var ready [1]byte
	if _, err = gate.Read(ready[:]); err == nil {
		err = seize(pid, startOptions)
	}
	if err == nil {
		_, err = gate.Write(ready[:])
	}
	_ = gate.Close()
	if err != nil {
		_ = proc.Kill()
		_, _ = proc.Wait()
		return nil, nil, fmt.Errorf("hold %s at its start by ptrace: %w", p.Path, err)
	}
	t := tracee{pid: pid, attach: attach}
	if p.Watch != nil {
		t.unknown = p.Watch.Unknown
	}
	err = t.run()
	switch {
	case errors.Is(err, ErrExited):
		return proc, nil, err
	case err == nil, errors.Is(err, ErrNothingFound):
		w, letGo := t.leave(p.Watch)
		if letGo == nil {
			return proc, w, err
		}
		err = letGo
	}
	_ = proc.Kill()
	_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
	_ = proc.Release()
	return nil, nil, err
}

// startShim starts our own executable, which waits at the gate and then
// becomes the program.
func startShim(p Program) (*os.Process, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	r, w := os.NewFile(uintptr(pair[0]), "gate"), os.NewFile(uintptr(pair[1]), "gate")
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = w.Close()
		return nil, nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	defer null.Close()
	files := []*os.File{p.Stdin, p.Stdout, p.Stderr}
	for i, f := range files {
		if f == nil {
			files[i] = null
		}
	}
	// The gate keeps its number, which none of the caller's descriptors can have. Those are handed on, too.
	gate := int(r.Fd())
	for number := len(files); number < gate; number++ {
		files = append(files, inherited(number))
	}
	defer closeFiles(files[3:])
	proc, err := os.StartProcess("/proc/self/exe", shim.Args(gate, signalSet(p.Ignored), p.Path, p.Args), &os.ProcAttr{
		Env: p.Env, Files: append(files, r),
	})
	if err != nil {
		_ = w.Close()
		return nil, nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	return proc, w, nil
}

// inherited returns a copy of a descriptor that survives exec, as one that memtrace's caller left open
// does and none of our own; nil: it is none.
func inherited(number int) *os.File {
	if flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil
	}
	copied, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(copied), "inherited")
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // the program has its own
		}
	}
}

// startOptions ask for a stop at exec, and for system-call stops that can be
// told from a SIGTRAP.
const startOptions = unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD

// seize attaches to a thread by ptrace without stopping it. There is no
// PTRACE_O_EXITKILL among the options: the program shall outlive us.
func seize(tid, options int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, uintptr(options), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// ExitCode is the code that a shell gives for a failure to start a program.
func ExitCode(err error) int {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return shim.NotFound
	}
	return shim.NotExecutable
}
