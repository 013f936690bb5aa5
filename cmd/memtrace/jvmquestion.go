//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/analyzer/runtimemap"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/cmd/memtrace/naming"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/jvmattach"
)

// A jvmQuestion asks the JVM of a process for the names of its code, beside the session.
type jvmQuestion struct {
	fs      procfs.FS
	pid     int
	start   uint64 // Held.StartTime
	space   *symbol.Space
	program *jvmProgram
	names   *naming.Namer
}

// A jvmLookError says why it can't be told whether a process has a JVM, or what of.
type jvmLookError struct{ error }

func (e *jvmLookError) Unwrap() error { return e.error }

// ask has the JVM write the names and reads them. It holds the process itself, as its target may be let go meanwhile.
func (q *jvmQuestion) ask(ctx context.Context) error {
	held, err := q.fs.Hold(q.pid)
	if err == nil && held.StartTime != q.start {
		_ = held.Close()
		err = procfs.ErrGone
	}
	if errors.Is(err, procfs.ErrGone) {
		return errNoJVM
	}
	if err != nil {
		return &jvmLookError{fmt.Errorf("look whether process %d is a JVM: %w", q.pid, err)}
	}
	defer held.Close()
	if err := q.look(held); err != nil {
		return err
	}
	if !held.Alive() || ctx.Err() != nil {
		return errNoJVM
	}
	q.names.AskFor(q.pid, true)
	if err := jvmattach.PerfMap(ctx, held, &q.program.wake); err != nil {
		return err
	}
	if err := q.space.JITRewritten(); err != nil {
		return fmt.Errorf("read the names of the code of process %d: %w", q.pid, err)
	}
	return nil
}

// look returns nil where a process is a JVM that answers.
func (q *jvmQuestion) look(held *procfs.Held) error {
	status, err := held.Status()
	if err != nil {
		return errNoJVM
	}
	code := status.VmLib + 1
	if code == q.program.without {
		return errNoJVM // its library would have brought code
	}
	runtime, err := runtimemap.Find(held.Process)
	switch {
	case errors.Is(err, procfs.ErrGone):
		return errNoJVM
	case errors.Is(err, runtimemap.ErrNone), errors.Is(err, runtimemap.ErrOther),
		err == nil && runtime.Name() != "java":
		q.program.without = code
		return errNoJVM
	case err != nil:
		return &jvmLookError{fmt.Errorf("the JVM of process %d is not asked for the names of its code: %w", q.pid, err)}
	}
	starting, err := runtime.Answers()
	switch {
	case err == nil:
		return nil
	case starting, !held.Alive():
		return errJVMStarts
	}
	return fmt.Errorf("the JVM of process %d: %w for the names of its code: %w", q.pid, errNoAnswers, err)
}
