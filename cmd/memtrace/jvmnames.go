//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memtrace/memtrace/analyzer/runtimemap"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/jvmattach"
)

const (
	// A JVM that took t to answer is asked again after jvmRest × t, jvmEvery at least.
	jvmEvery, jvmRest = 2 * time.Second, 50
	// jvmPatience bounds one question, jvmLastPatience the last ones of all JVMs.
	jvmPatience, jvmLastPatience = 10 * time.Second, 3 * time.Second
	// maxJVMFailures is after how many failures in a row a JVM is asked no more.
	maxJVMFailures = 3
)

// jvmNames is how far the names of the code are that a process's JVM compiles.
type jvmNames struct {
	execs    int           // of the process as it was looked at
	next     time.Time     // when it is to be looked at again
	never    bool          // it can't be asked
	answer   chan jvmReply // of a question that is on its way; nil: none is
	failures int           // in a row
}

// jvmReply is how a question ended.
type jvmReply struct {
	took time.Duration
	err  error
}

// askJVMs has the JVMs among the targets write the names of their code, where --jvm-perfmap was given. Questions run beside the trace.
func (s *session) askJVMs() {
	if !s.jvmPerfMap {
		return
	}
	for _, t := range s.targets {
		if t.exited || t.shared || t.space == nil {
			continue
		}
		s.takeJVMReply(t)
		if n := &t.names; n.answer == nil && time.Now().After(n.next) && s.mayAskJVM(t) {
			n.answer = s.askJVM(t, jvmPatience)
		}
	}
}

// takeJVMReply notes how the last question ended, if it has.
func (s *session) takeJVMReply(t *target) {
	n := &t.names
	select {
	case r := <-n.answer:
		n.answer, n.next = nil, time.Now().Add(max(jvmEvery, jvmRest*r.took))
		s.noteJVMReply(t, r.err)
	default:
	}
}

func (s *session) noteJVMReply(t *target, err error) {
	n := &t.names
	if err == nil {
		n.failures = 0
		return
	}
	n.failures++
	if errors.Is(err, jvmattach.ErrUnknownCommand) || n.failures >= maxJVMFailures {
		n.never = true
		s.names.AskFor(t.pid, false)
	}
	if t.held.Alive() {
		s.warn("%v", err)
	}
}

// mayAskJVM reports whether a process is a JVM that answers. What is none now may be one later: its library is loaded after its program.
func (s *session) mayAskJVM(t *target) bool {
	n := &t.names
	if n.execs != t.execs {
		*n = jvmNames{execs: t.execs}
	}
	if n.never {
		return false
	}
	n.next = time.Now().Add(jvmEvery / 4)
	runtime, err := runtimemap.Find(t.held.Process)
	if err != nil || runtime.Name() != "java" {
		return false
	}
	starting, err := runtime.Answers()
	if err == nil {
		s.names.AskFor(t.pid, true)
		return true
	}
	if !starting && t.held.Alive() {
		n.never = true
		s.warn("--jvm-perfmap: the JVM of process %d is not asked for the names of its code: %v", t.pid, err)
	}
	return false
}

// askJVM asks a JVM and reads what it wrote, in a goroutine.
func (s *session) askJVM(t *target, patience time.Duration) chan jvmReply {
	answer := make(chan jvmReply, 1)
	pid, start, space := t.pid, t.held.StartTime, t.space
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		began := time.Now()
		err := perfMapOf(ctx, s.fs, pid, start)
		if err == nil {
			if err = space.JITRewritten(); err != nil {
				err = fmt.Errorf("read the names of the code of process %d: %w", pid, err)
			}
		}
		answer <- jvmReply{time.Since(began), err}
	}()
	return answer
}

// perfMapOf has the JVM of a process write the names of its code. It holds the process itself, as its target may be let go meanwhile.
func perfMapOf(ctx context.Context, fs procfs.FS, pid int, start uint64) error {
	held, err := fs.Hold(pid)
	if err != nil {
		return err
	}
	defer held.Close()
	if held.StartTime != start {
		return procfs.ErrGone
	}
	return jvmattach.PerfMap(ctx, held)
}

// askJVMsLast asks all JVMs once more, so that the last Report has the names of what was compiled since.
func (s *session) askJVMsLast() {
	if !s.jvmPerfMap {
		return
	}
	for _, t := range s.targets {
		if !t.exited && !t.shared && t.space != nil && t.names.answer == nil && s.mayAskJVM(t) {
			t.names.answer = s.askJVM(t, jvmLastPatience)
		}
	}
	over := time.NewTimer(jvmLastPatience)
	defer over.Stop()
	for _, t := range s.targets {
		if t.names.answer != nil {
			select {
			case r := <-t.names.answer:
				s.noteJVMReply(t, r.err)
			case <-over.C:
				over.Reset(0) // the others are not waited for
				s.warn("the JVM of process %d did not answer within %v: code that it compiled last has no names", t.pid, jvmLastPatience)
			}
		}
		s.names.AskFor(t.pid, false) // what has no name now has none
	}
}
