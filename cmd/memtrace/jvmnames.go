//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"time"

	"github.com/memtrace/memtrace/procfs/turns"
	"github.com/memtrace/memtrace/tracer/jvmattach"
)

// A JVM that took t to answer is asked again after jvmRest × t, jvmEvery at least. Tests ask more often.
var jvmRest time.Duration = 50

const (
	jvmEvery = 2 * time.Second
	// jvmLook is how often, at most, it is looked whether a process is a JVM by now: never for more than a 50th of the
	// time.
	jvmLook = jvmEvery / 4
	// jvmPatience bounds one question, jvmLastPatience the last ones of all JVMs; what does not heed that is waited
	// for jvmGrace longer.
	jvmPatience, jvmLastPatience, jvmGrace = 10 * time.Second, 3 * time.Second, 500 * time.Millisecond
	// maxJVMFailures is after how many failures in a row a JVM is asked no more, maxJVMLooks after how many that a
	// process can't be looked at.
	maxJVMFailures, maxJVMLooks = 3, 10
	// maxJVMQuestions bounds how many processes are asked at a time: one whose memory does not come keeps a thread.
	maxJVMQuestions = 64
)

// jvmQuestions has a turn for each question that is on its way.
var jvmQuestions = turns.New(maxJVMQuestions)

var (
	// errNoJVM: a process has no JVM now.
	errNoJVM = errors.New("it has no JVM")
	// errJVMStarts: its JVM is not to be asked yet.
	errJVMStarts = errors.New("its JVM is starting")
	// errNoAnswers: its JVM would not answer.
	errNoAnswers = errors.New("it is not asked")
)

// jvmNames is how far the names of the code are that a process's JVM compiles.
type jvmNames struct {
	execs    int           // of the process as it was looked at
	next     time.Time     // when it is to be looked at again
	never    bool          // it can't be asked
	answer   chan jvmReply // of a question that is on its way; nil: none is
	cancel   context.CancelFunc
	failures int // in a row
	looks    int // that failed, in a row
	program  *jvmProgram
}

// A jvmProgram is a program that is asked. Its fields are those of the question that is on its way, while one is.
type jvmProgram struct {
	wake    jvmattach.Wake
	without uint64 // procfs.Status.VmLib at which there was no JVM, and 1; 0: there was none yet
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
		if n := &t.names; n.answer == nil && time.Now().After(n.next) {
			s.askJVM(t, jvmPatience)
		}
	}
}

// takeJVMReply notes how the last question ended, if it has.
func (s *session) takeJVMReply(t *target) {
	select {
	case r := <-t.names.answer:
		s.noteJVMReply(t, r)
	default:
	}
}

// noteJVMReply notes how a question ended. What is no JVM now may be one later: its library is loaded after its
// program.
func (s *session) noteJVMReply(t *target, r jvmReply) {
	n := &t.names
	n.cancel()
	n.answer, n.next = nil, time.Now().Add(max(jvmEvery, jvmRest*r.took))
	if !errors.As(r.err, new(*jvmLookError)) {
		n.looks = 0
	}
	switch {
	case r.err == nil:
		n.failures = 0
		return
	case errors.Is(r.err, errNoJVM), errors.Is(r.err, errJVMStarts):
		n.next = time.Now().Add(max(jvmLook, jvmRest*r.took))
		return
	case errors.Is(r.err, jvmattach.ErrNotListening), errors.Is(r.err, jvmattach.ErrStopped):
		n.next = time.Now().Add(jvmEvery) // it may yet, and is not sent another signal
	case errors.As(r.err, new(*jvmLookError)):
		n.next = time.Now().Add(max(jvmLook, jvmRest*r.took))
		if n.looks++; n.looks < maxJVMLooks {
			return // it may be about to be loaded
		}
		n.never = true
	case errors.Is(r.err, jvmattach.ErrUnknownCommand), errors.Is(r.err, errNoAnswers):
		n.never = true
	default:
		n.failures++
		n.never = n.failures >= maxJVMFailures
	}
	if n.never {
		s.names.AskFor(t.pid, false)
	}
	if t.held.Alive() {
		s.warn("--jvm-perfmap: %v", r.err)
	}
}

// askJVM asks a JVM and reads what it wrote, in a goroutine. Whether a process is a JVM is found there, too: it takes
// reading files and memory of the process, which may be slow in coming.
func (s *session) askJVM(t *target, patience time.Duration) {
	n := &t.names
	if n.program == nil || n.execs != t.execs {
		n.forgetProgram()
		*n = jvmNames{execs: t.execs, program: new(jvmProgram)}
	}
	if n.never {
		return
	}
	user := userOf(t)
	if !jvmQuestions.Take(user) {
		n.next = time.Now().Add(jvmLook)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	n.answer, n.cancel = make(chan jvmReply, 1), cancel
	q := jvmQuestion{fs: s.fs, pid: t.pid, start: t.held.StartTime, space: t.space, program: n.program, names: s.names}
	go func(answer chan<- jvmReply) {
		began := time.Now()
		err := q.ask(ctx)
		jvmQuestions.Give(user)
		answer <- jvmReply{time.Since(began), err}
	}(n.answer)
}

// forgetProgram removes the file that asks a program to listen, which has ended.
func (n *jvmNames) forgetProgram() {
	if n.program != nil {
		n.program.wake.Remove()
	}
}

// close lets go of a process, and of the file that asks it to listen: that stays where the process lives, as it may not
// have taken its signal yet.
func (n *jvmNames) close(alive bool) {
	program, answer := n.program, n.answer
	n.program, n.answer = nil, nil
	if program == nil {
		return
	}
	letGo := program.wake.Remove
	if alive {
		letGo = program.wake.Leave
	}
	if answer == nil {
		letGo()
		return
	}
	n.cancel()
	go func() {
		<-answer
		letGo()
	}()
}

// askJVMsLast asks all JVMs once more, so that the last Report has the names of what was compiled since. Questions
// that do not end in time are ended.
func (s *session) askJVMsLast() {
	if !s.jvmPerfMap {
		return
	}
	for _, t := range s.targets {
		if !t.exited && !t.shared && t.space != nil && t.names.answer == nil {
			s.askJVM(t, jvmLastPatience)
		}
	}
	end := time.AfterFunc(jvmLastPatience, s.cancelJVMs())
	defer end.Stop()
	over := time.NewTimer(jvmLastPatience + jvmGrace)
	defer over.Stop()
	for _, t := range s.targets {
		if t.names.answer != nil {
			select {
			case r := <-t.names.answer:
				s.noteJVMReply(t, r)
			case <-over.C:
				over.Reset(0) // the others are not waited for
				s.warn("--jvm-perfmap: process %d could not be read within %v: code that it compiled last has no names",
					t.pid, jvmLastPatience)
			}
		}
		s.names.AskFor(t.pid, false) // what has no name now has none
	}
}

// cancelJVMs returns what ends the questions that are on their way.
func (s *session) cancelJVMs() func() {
	var all []context.CancelFunc
	for _, t := range s.targets {
		if t.names.answer != nil {
			all = append(all, t.names.cancel)
		}
	}
	return func() {
		for _, cancel := range all {
			cancel()
		}
	}
}
