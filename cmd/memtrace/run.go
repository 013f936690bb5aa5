//go:build linux && !viewer

package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/tracer/launch"
	"github.com/memtrace/memtrace/tracer/probe"
)

const runDescription = "Starts COMMAND and traces it and its children from the first instruction. stdin, stdout and stderr belong to the " +
	"command. The Report comes after it has ended: text on stderr, JSON and CSV on stdout, or in --report FILE."

func runCommand(c *cli.Context) error {
	argv := c.Args().Slice()
	if len(argv) == 0 {
		return usageError("no command given: memtrace run [flags] -- COMMAND [ARGUMENT...]")
	}
	if err := refuseLateFlags(c, argv); err != nil {
		return err
	}
	set, err := readSettings(c)
	if err != nil {
		return err
	}
	if set.leaks && set.atExit == exitOff {
		return usageError("run checks for leaks as the command ends: --at-exit off leaves nothing to check")
	}
	if err := set.open(); err != nil {
		return err
	}
	defer set.recording.abandon()
	return set.gate.finish(runProgram(c.Context, set, argv, c.Path("report")))
}

func runProgram(ctx context.Context, set settings, argv []string, reportFile string) (err error) {
	ends := context.AfterFunc(ctx, endAtSecondSignal) // until the program gets them
	defer ends()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return &exitError{launch.ExitCode(err), fmt.Errorf("start %s: %w", argv[0], err)}
	}
	out, done, err := runOutput(set, reportFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	set.ofCommand = true
	s, err := newSession(set, out)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.limiter.begin(true); err != nil {
		return err
	}
	signals, err := launch.Ignored()
	if err != nil {
		s.warn("the command has the default action for all signals, even if the caller of memtrace has them ignored: %v", err)
	}
	program := launch.Program{Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Ignored: signals}
	return s.run(interruptsOf(ctx), program, ends)
}

// runOutput says where the one Report of run goes: stdout belongs to the command.
func runOutput(set settings, file string) (output, func() error, error) {
	opt := set.shownAs()
	if set.recordOnly {
		return recordOutput{}, func() error { return nil }, nil
	}
	out := &stream{to: os.Stderr, opt: opt}
	if set.format != render.Text {
		out.to = os.Stdout
	}
	if file == "" {
		return out, func() error { return nil }, nil
	}
	f, err := createAsCaller(file, os.O_RDWR|os.O_TRUNC)
	if err != nil {
		return nil, nil, fmt.Errorf("create the report file: %w", err)
	}
	out.to = f
	return out, func() error {
		if err := f.Close(); err != nil { // what a write could not: on NFS, over a quota
			return fmt.Errorf("write the report: %w", err)
		}
		return nil
	}, nil
}

// run starts the program, traces it from its first instruction to its end and
// returns its exit code as an error, if it is not 0. handOver is called once the signals are the program's; what
// came before ends the start.
func (s *session) run(in *interrupts, program launch.Program, handOver func() bool) error {
	if err := in.before(program.Args[0]); err != nil {
		return err
	}
	if s.hold {
		program.Watch = s.hooks()
	}
	signals, looked := false, false
	proc, err := launch.Start(program, func(pid int) (bool, error) {
		if err := in.before(program.Args[0]); err != nil {
			return false, err
		}
		if !looked { // before it runs: as soon as it does, somebody may send both a signal
			looked, signals = true, s.tracer.NoteSignals(os.Getpid(), pid) == nil // else what a terminal sends is known
		}
		return s.attachAtStart(pid)
	})
	switch {
	case errors.Is(err, launch.ErrNothingFound):
		s.warn("%v: its allocations are not seen", err)
	case errors.Is(err, launch.ErrExited):
	case err != nil:
		return cmp.Or(in.before(program.Args[0]), err) // the terminal's signal may have ended what was to become the program
	}
	s.pids = []int{proc.Pid}
	stopSignals := s.forwardSignals(in, proc.Process, signals)
	handOver()
	ended := make(chan *os.ProcessState, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		state, err := proc.Wait()
		if err != nil {
			s.exitError = fmt.Errorf("wait for process %d: %w", proc.Pid, err)
		}
		ended <- state
		cancel()
	}()
	err = s.loopUntilEnd(ctx, proc.Pid, ended)
	stopSignals()
	return err
}

// loopUntilEnd runs the trace while the program does, and reports its end.
func (s *session) loopUntilEnd(ctx context.Context, pid int, ended <-chan *os.ProcessState) error {
	var code int
	s.beforeFinish = func() {
		state := <-ended
		s.interrupts.tell(s.signalled) // what came before was the command's
		if state == nil {
			return
		}
		code = exitCodeOf(state)
		s.take(input.ExitCode{PID: uint32(pid), Code: code})
	}
	if err := s.loop(ctx); err != nil {
		return err
	}
	if s.exitError != nil {
		return s.exitError
	}
	err := s.withRecord(s.gate.result())
	switch {
	case code == 0, s.gate.failed():
		return err
	case err == nil:
		err = errQuiet
	}
	return &exitError{code, err} // the command's own failure comes before one of the check
}

// exitCodeOf is a program's exit code as a shell gives it: 128 and the signal
// for one that was killed.
func exitCodeOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// attachAtStart attaches to the allocators that the program has mapped so far.
// It is content once the C library is among them: the last that a program
// could need, since all of them are mapped before it runs.
func (s *session) attachAtStart(pid int) (bool, error) {
	if s.settings.tracer.Touch {
		return true, s.startTouch(pid)
	}
	objects, err := s.finder.Discover(pid)
	if err != nil {
		if hasLoader(pid) && notLoadedYet(err) {
			return false, nil
		}
		if s.tracesWithoutAllocator(err) {
			return true, s.startWithoutAllocator(pid, err)
		}
		return false, err
	}
	t := s.targets[pid]
	if t == nil {
		if t, err = holdTarget(s.fs, pid); err != nil {
			return false, err
		}
	}
	if err := s.attachTarget(t, objects, true); err != nil {
		return false, err
	}
	if !mapsLast(t) {
		return false, nil
	}
	s.guarded[pid], s.command = s.hold, pid
	if s.hold && s.attacher.checksItself(pid) {
		s.notePtraceDetached(pid, errChecksItself)
		return true, nil
	}
	s.stopAtExit(t)
	return true, nil
}

// mapsLast reports whether the last of what a program could need to have
// mapped is among what was attached to.
func mapsLast(t *target) bool { return slices.ContainsFunc(t.objects, isLast) }

func isLast(o probe.Object) bool {
	return o.Static || o.Family == probe.Glibc || o.Family == probe.Musl
}

func notLoadedYet(err error) bool {
	return errors.Is(err, probe.ErrNoAllocator) || errors.Is(err, probe.ErrGoProgram) || errors.Is(err, probe.ErrStripped)
}

// hasLoader reports whether the program was started through a dynamic loader:
// the auxiliary vector then has its address (getauxval(3), AT_BASE).
func hasLoader(pid int) bool {
	const atBase = 7
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return false
	}
	for i := 0; i+16 <= len(auxv); i += 16 {
		if binary.NativeEndian.Uint64(auxv[i:]) == atBase {
			return binary.NativeEndian.Uint64(auxv[i+8:]) != 0
		}
	}
	return false
}
