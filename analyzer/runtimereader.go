//go:build linux && !viewer

package analyzer

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/runtimemap"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/turns"
)

const (
	// maxFinds is how often in a row a runtime is looked for that can't be read; after that only once in findRest. A
	// program that starts slowly may have its runtime then.
	maxFinds = 10
	findRest = 10 * time.Second
	// runtimePatience is how long a sample waits for what a process's runtime holds. Reading it takes a few
	// milliseconds.
	runtimePatience = 500 * time.Millisecond
	// partsKeep is how long parts are good for while the next reading is late.
	partsKeep = 10 * time.Second
	// maxRuntimeReads bounds how many processes are read at a time: each that does not answer keeps a thread.
	maxRuntimeReads = 64
)

// A runtimeReader reads, time after time, where the parts of a process are that a language's runtime uses. It does so
// in a goroutine of its own, as a process may have memory that comes when another program likes (runtimemap).
//
//	in time      a sample begins a reading and waits for it
//	late         a sample whose reading does not come in time goes on with the parts of the one before, if there was
//	             one, as do the next ones, which do not wait
//	came late    the sample that finds it uses it, and begins the next one without waiting; once one took no longer
//	             than a sample waits, samples wait again, if not too many of its user's came late (turns)
//
// So memory that never comes is waited for once, and slow memory has figures in each sample.
type runtimeReader struct {
	runtime *runtimemap.Runtime // what was found; that of the goroutine while one is at work
	answer  chan runtimeAnswer  // of the goroutine at work; nil: there is none
	user    uint32              // whose process it reads
	stale   bool                // it reads a program before
	last    runtimeAnswer       // the last one with parts
	failed  int                 // how often in a row a runtime was looked for and could not be read
	next    time.Time           // when it is to be looked for again, where that failed too often
	problem string              // why
	without uint64              // Status.VmLib at which no runtime was found, and 1; 0: not looked yet

	by func(*procfs.Process, *runtimemap.Runtime) runtimeAnswer // nil: readRuntime
}

// A runtimeAnswer is what a goroutine read.
type runtimeAnswer struct {
	runtime *runtimemap.Runtime // nil: none was found, as findErr says
	findErr error
	is      input.Runtime // its name and version
	parts   []runtimemap.Part
	err     error // of the parts
	code    uint64
	at      time.Time // when that was
	took    time.Duration
}

// runtimeReads has a turn for each goroutine at work, of all processes.
var runtimeReads = turns.New(maxRuntimeReads)

// errTooManyReads is said instead of what would be read.
const errTooManyReads = "too many other processes of its user, or of all, have not been read in time"

// ofNextProgram is the reader of the program that a process executed. A goroutine that has not answered is not left
// to itself for another one.
func (r *runtimeReader) ofNextProgram() runtimeReader {
	return runtimeReader{answer: r.answer, user: r.user, stale: r.answer != nil}
}

// read says what the runtime is and where its parts are; nil where there is none.
func (r *runtimeReader) read(p *procfs.Process) (*input.Runtime, []runtimemap.Part) {
	came, slow := false, false // a reading that was begun before
	if r.answer != nil {
		a, ok := r.wait(0)
		if !ok {
			return r.late(partsKeep)
		}
		if !r.stale {
			r.take(a)
			came, slow = true, a.took > runtimePatience
		}
		r.stale = false
	}
	keep := partsKeep
	if came {
		keep = math.MaxInt64 // no other one was read since
	}
	if !r.begin(p) {
		return r.older(keep)
	}
	if slow || !runtimeReads.Waits(r.user) {
		return r.late(keep)
	}
	a, ok := r.wait(runtimePatience)
	if !ok {
		runtimeReads.Late(r.user)
		return r.late(keep)
	}
	return r.take(a)
}

// late is older while a reading is at work.
func (r *runtimeReader) late(keep time.Duration) (*input.Runtime, []runtimemap.Part) {
	r.problem = "its memory could not be read in time: another program may have to deliver it (userfaultfd, FUSE)"
	return r.older(keep)
}

// older is the answer where nothing was read now: what was read before, if that is no older than keep. What memory the
// parts have is measured now all the same.
func (r *runtimeReader) older(keep time.Duration) (*input.Runtime, []runtimemap.Part) {
	age := time.Since(r.last.at)
	if r.last.runtime == nil || age > keep {
		return r.unread()
	}
	out := r.last.is
	out.Problem = fmt.Sprintf("where they are was read %v before, as its memory comes late", age.Round(time.Millisecond))
	return &out, r.last.parts
}

// unread is the answer where nothing was read.
func (r *runtimeReader) unread() (*input.Runtime, []runtimemap.Part) {
	if r.problem == "" {
		return nil, nil
	}
	out := r.last.is
	out.Problem = r.problem
	return &out, nil
}

// begin has a goroutine read the process, where there may be something to read.
func (r *runtimeReader) begin(p *procfs.Process) bool {
	status, err := p.Status()
	if err != nil {
		return false
	}
	var code uint64
	if r.runtime == nil {
		if r.failed >= maxFinds && time.Now().Before(r.next) {
			return false
		}
		if r.without == status.VmLib+1 {
			return false // a runtime that is loaded later brings code
		}
		code = status.VmLib + 1
	}
	user := status.Uid[0]
	r.user = user
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
	read := r.by
	if read == nil {
		read = readRuntime
	}
	go func(answer chan<- runtimeAnswer, known *runtimemap.Runtime) {
		defer runtimeReads.Give(user)
		defer own.Close()
		began := time.Now()
		a := read(own, known)
		a.code, a.at = code, time.Now()
		a.took = a.at.Sub(began)
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
	a.is = input.Runtime{Name: a.runtime.Name(), Version: a.runtime.Version}
	a.parts, a.err = a.runtime.Parts(p)
	return a
}

// wait returns the answer of the goroutine at work, if it comes in time.
func (r *runtimeReader) wait(patience time.Duration) (a runtimeAnswer, ok bool) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a = <-r.answer:
	default:
		select {
		case a = <-r.answer:
		case <-late.C:
			return a, false
		}
	}
	r.answer = nil
	return a, true
}

// take notes an answer.
func (r *runtimeReader) take(a runtimeAnswer) (*input.Runtime, []runtimemap.Part) {
	r.problem = ""
	r.next = a.at.Add(findRest)
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
	r.runtime, r.failed = a.runtime, 0
	r.last = a
	out := a.is
	if a.err != nil {
		out.Problem = a.err.Error()
	}
	return &out, a.parts
}
