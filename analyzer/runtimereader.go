//go:build linux && !viewer

package analyzer

import (
	"errors"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/runtimemap"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/turns"
)

const (
	// maxFinds is how often a runtime is looked for that can't be read.
	maxFinds = 10
	// runtimePatience is how long a sample waits for what a process's runtime holds. Reading it takes a few
	// milliseconds.
	runtimePatience = 500 * time.Millisecond
	// maxRuntimeReads bounds how many processes are read at a time: each that does not answer keeps a thread.
	maxRuntimeReads = 64
)

// A runtimeReader reads, time after time, where the parts of a process are that a language's runtime uses. It does so
// in a goroutine of its own, as a process may have memory that comes when another program likes (runtimemap). A
// sample waits for that once; while a process has not answered, later ones do without, and then take what was read
// for the one before.
type runtimeReader struct {
	runtime *runtimemap.Runtime // what was found; that of the goroutine while one is at work
	answer  chan runtimeAnswer  // of the goroutine at work; nil: there is none
	late    bool                // one was waited for in vain, so that none is waited for again
	user    uint32              // whose process it reads
	stale   bool                // it reads a program before
	failed  int                 // how often a runtime was looked for and could not be read
	problem string              // why
	without uint64              // Status.VmLib at which no runtime was found, and 1; 0: not looked yet
}

// A runtimeAnswer is what a goroutine read.
type runtimeAnswer struct {
	runtime *runtimemap.Runtime // nil: none was found, as findErr says
	findErr error
	parts   []runtimemap.Part
	err     error // of the parts
	code    uint64
}

// runtimeReads has a turn for each goroutine at work, of all processes.
var runtimeReads = turns.New(maxRuntimeReads)

// errTooManyReads is said instead of what would be read.
const errTooManyReads = "too many other processes of its user, or of all, have not been read in time"

// ofNextProgram is the reader of the program that a process executed. A goroutine that has not answered is not left
// to itself for another one.
func (r *runtimeReader) ofNextProgram() runtimeReader {
	return runtimeReader{answer: r.answer, late: r.late, user: r.user, stale: r.answer != nil}
}

// read says what the runtime is and where its parts are; nil where there is none.
func (r *runtimeReader) read(p *procfs.Process) (*input.Runtime, []runtimemap.Part) {
	if r.answer == nil && (r.failed >= maxFinds || !r.begin(p)) {
		return r.unread()
	}
	a, ok := r.wait()
	if ok && r.stale {
		r.stale = false
		return r.read(p)
	}
	if !ok {
		r.problem = "its memory could not be read in time: another program may have to deliver it (userfaultfd, FUSE)"
		return r.unread()
	}
	return r.take(a)
}

// unread is the answer where nothing was read.
func (r *runtimeReader) unread() (*input.Runtime, []runtimemap.Part) {
	if r.problem == "" {
		return nil, nil
	}
	out := &input.Runtime{Problem: r.problem}
	if r.runtime != nil {
		out.Name, out.Version = r.runtime.Name(), r.runtime.Version
	}
	return out, nil
}

// begin has a goroutine read the process, where there may be something to read.
func (r *runtimeReader) begin(p *procfs.Process) bool {
	status, err := p.Status()
	if err != nil {
		return false
	}
	var code uint64
	if r.runtime == nil {
		if r.without == status.VmLib+1 {
			return false // a runtime that is loaded later brings code
		}
		code = status.VmLib + 1
	}
	user := status.Uid[0]
	r.user, r.late = user, r.late || !runtimeReads.Waits(user)
	if !runtimeReads.Take(user) {
		r.problem = errTooManyReads
		return false
	}
	own, err := p.Again() // p may be closed before the answer comes
	if err != nil {
		runtimeReads.Give(user)
		return false
	}
	r.answer = make(chan runtimeAnswer, 1)
	go func(answer chan<- runtimeAnswer, known *runtimemap.Runtime) {
		defer runtimeReads.Give(user)
		defer own.Close()
		a := readRuntime(own, known)
		a.code = code
		answer <- a
	}(r.answer, r.runtime)
	return true
}

// readRuntime finds the runtime, if it is not known, and its parts.
func readRuntime(p *procfs.Process, known *runtimemap.Runtime) (a runtimeAnswer) {
	if a.runtime = known; known == nil {
		if a.runtime, a.findErr = runtimemap.Find(p); a.findErr != nil {
			return a
		}
	}
	a.parts, a.err = a.runtime.Parts(p)
	return a
}

// wait returns the answer of the goroutine at work, if it comes.
func (r *runtimeReader) wait() (a runtimeAnswer, ok bool) {
	if r.late {
		select {
		case a = <-r.answer:
			r.answer = nil
			return a, true
		default:
			return a, false
		}
	}
	select {
	case a = <-r.answer:
		r.answer = nil
		return a, true
	case <-time.After(runtimePatience):
		r.late = true
		runtimeReads.Late(r.user)
		return a, false
	}
}

// take notes an answer.
func (r *runtimeReader) take(a runtimeAnswer) (*input.Runtime, []runtimemap.Part) {
	r.problem = ""
	if a.runtime == nil {
		switch {
		case errors.Is(a.findErr, procfs.ErrGone):
		case errors.Is(a.findErr, runtimemap.ErrNone):
			r.without = a.code
		case errors.Is(a.findErr, runtimemap.ErrOther):
			r.failed++
		default: // its library may be about to be loaded
			r.failed++
			r.problem = a.findErr.Error()
		}
		return r.unread()
	}
	r.runtime = a.runtime
	out := &input.Runtime{Name: a.runtime.Name(), Version: a.runtime.Version}
	if a.err != nil {
		out.Problem = a.err.Error()
	}
	return out, a.parts
}
