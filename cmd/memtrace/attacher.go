//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// An attacher attaches to processes and knows which files each is probed in. So a
// child can be attached to at once: it begins with its parent's mappings, and
// nothing needs to be looked for. Its methods may be called from any
// goroutine, as a stopped child must not wait for a Report.
type attacher struct {
	tracer *tracer.Tracer
	fs     procfs.FS

	attaching [16]sync.Mutex // by process: no file is attached to twice
	looking   [16]sync.Mutex // by process: what is mapped is looked into once

	mu              sync.Mutex
	probed          map[int][]probe.Object
	heldChildren    map[int]bool           // stopped at their first instruction; until the session has the result
	attachedAtStart map[int]bool           // children attached to before their first instruction, until the session asks
	looked          map[int]probe.Mappings // what was looked into for allocators as it was mapped; guarded by looking
	held            map[int]bool           // processes that stand still at an exec
	execs           map[int]int            // how often they have
	noAllocator     map[int]noAllocatorExec
	late            map[int]bool // processes that ran already when some of their files were attached to
	files           map[fileID]*os.File
	since           map[fileID]uint64 // ns: when each file was first attached to
	skippedChildren int               // children left alone, as too many came
	notes           []string          // why objects were left alone

	tracing map[int]probe.Tracing // what each program may want ptrace for
	stops   map[int]fileID        // processes that stop as they call ptrace, and the file that has it

	attaches map[int]int  // attaches to each process that are under way
	mayCall  map[int]bool // children left alone whose parents may call ptrace
	left     map[int]bool // processes that another tracer has

	unwatched error // of watchLoader

	allocs    bool          // --probes allocs: free has no probe where it needs none
	withFrees map[int]error // processes in which it has, and why
	saidFrees []string      // reasons that were told
}

// fileID tells mapped files apart.
type fileID struct {
	major, minor uint32
	inode        uint64
}

// noAllocatorExec is the exec of a program without an allocator.
type noAllocatorExec struct {
	number int   // among the process's, from 1
	reason error // why none was found
}

// errTooManyChildren: children come and go faster than their probes can be removed.
var errTooManyChildren = errors.New("too many short-lived children")

// errNoParent: a child that runs has outlived its parent, or comes before it was
// attached to itself.
var errNoParent = errors.New("nothing is known of its parent")

const (
	// detachTimeout is how long a stopped child waits for the probes of others to be removed.
	detachTimeout = 200 * time.Millisecond
	detachPoll    = time.Millisecond
)

func newAttacher(t *tracer.Tracer, fs procfs.FS, allocs bool) *attacher {
	return &attacher{
		tracer: t, fs: fs, allocs: allocs,
		probed: make(map[int][]probe.Object), heldChildren: make(map[int]bool), attachedAtStart: make(map[int]bool),
		held: make(map[int]bool), late: make(map[int]bool), execs: make(map[int]int),
		noAllocator: make(map[int]noAllocatorExec), files: make(map[fileID]*os.File),
		since: make(map[fileID]uint64), looked: make(map[int]probe.Mappings),
		tracing: make(map[int]probe.Tracing), stops: make(map[int]fileID),
		withFrees: make(map[int]error), attaches: make(map[int]int), mayCall: make(map[int]bool), left: make(map[int]bool),
	}
}

// look attaches to the allocators in code that a process has mapped since the last
// look, and returns those that are new. The thread that mapped it is stopped.
func (a *attacher) look(pid int, discover func(pid int, known probe.Mappings) ([]probe.Object, error)) ([]probe.Object, error) {
	lock := &a.looking[pid%len(a.looking)]
	lock.Lock()
	defer lock.Unlock()
	a.mu.Lock()
	known := a.looked[pid]
	if known == nil {
		known = make(probe.Mappings)
		a.looked[pid] = known
	}
	late := a.late[pid]
	a.mu.Unlock()
	objects, err := discover(pid, known)
	if err != nil {
		return nil, err
	}
	news, err := a.extend(pid, objects)
	a.noteTracing(pid, objects, true)
	a.mu.Lock()
	a.late[pid] = late // nobody has run the code yet
	a.mu.Unlock()
	return news, err
}

// extend attaches to those of a process's objects that it is not attached to
// yet, and returns them. The files are the attacher's from then on.
func (a *attacher) extend(pid int, objects []probe.Object) (news []probe.Object, err error) {
	lock := &a.attaching[pid%len(a.attaching)]
	lock.Lock()
	defer lock.Unlock()
	a.mu.Lock()
	objects = a.intern(objects)
	if a.left[pid] { // while the attach was under way
		a.mu.Unlock()
		return nil, fmt.Errorf("attach to process %d: %w", pid, errTracedByOther)
	}
	a.relocate(pid, objects)
	for _, o := range objects {
		if !slices.ContainsFunc(a.probed[pid], func(p probe.Object) bool { return sameFile(&p, &o) }) {
			news = append(news, o)
		}
	}
	a.mu.Unlock()
	if news, err = a.attach(pid, news); err != nil {
		return nil, err
	}
	if len(objects) > 0 { // an interpreter of machine code reads the loader's code, too
		a.watchLoader(pid)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probed[pid] = slices.Concat(a.probed[pid], news)
	for _, o := range news {
		if id := (fileID{o.Major, o.Minor, o.Inode}); a.since[id] == 0 {
			a.since[id] = now()
		}
	}
	if len(news) > 0 && !a.held[pid] {
		a.late[pid] = true
	}
	return news, nil
}

// relocate notes where a process has mapped those of its objects that it is attached to
// already: after an exec that is elsewhere. The lock is held.
func (a *attacher) relocate(pid int, objects []probe.Object) {
	probed := slices.Clone(a.probed[pid]) // others may read the old
	for i := range probed {
		for _, o := range objects {
			if sameFile(&probed[i], &o) {
				probed[i].Text = o.Text
			}
		}
	}
	if len(probed) > 0 {
		a.probed[pid] = probed
	}
}

// attach attaches to those objects whose code is unchanged, and returns them. It is an error if all were changed.
func (a *attacher) attach(pid int, objects []probe.Object) ([]probe.Object, error) {
	unpatched, reasons := probe.Unpatched(a.fs.Root(), pid, objects, false)
	if len(unpatched) == 0 && len(reasons) > 0 {
		return nil, fmt.Errorf("attach to process %d: %w: it is left alone", pid, errors.Join(reasons...))
	}
	a.note(pid, reasons)
	if err := a.attachChosen(pid, unpatched); err != nil {
		return nil, err
	}
	// It may have been changed meanwhile.
	if _, reasons = probe.Unpatched(a.fs.Root(), pid, unpatched, true); len(reasons) > 0 {
		return nil, fmt.Errorf("attach to process %d: %w: it is left alone", pid, errors.Join(append(reasons, a.detach(pid))...))
	}
	return unpatched, nil
}

// note keeps why objects of a process are left alone until somebody asks.
func (a *attacher) note(pid int, reasons []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, reason := range reasons {
		if text := fmt.Sprintf("process %d: %v: it is left alone", pid, reason); len(a.notes) < maxWarnings && !slices.Contains(a.notes, text) {
			a.notes = append(a.notes, text)
		}
	}
}

// noted is what was noted since the last time.
func (a *attacher) noted() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	notes := a.notes
	a.notes = nil
	return notes
}

// detachInterpreter removes all probes of a process if its new program is an interpreter of machine code, as missing
// says. The interpreter is about to map the files that the program before was probed in. The process is stopped at its
// exec.
func (a *attacher) detachInterpreter(pid int, missing error) error {
	if !errors.Is(missing, probe.ErrInterpreter) {
		return nil
	}
	return a.detach(pid)
}

// detach removes all probes of a process.
func (a *attacher) detach(pid int) error {
	a.mu.Lock()
	delete(a.probed, pid)
	delete(a.stops, pid)
	delete(a.withFrees, pid)
	a.mu.Unlock()
	return a.tracer.Detach(pid)
}

// watchLoader makes code that a process loads known before it runs. Where that is not possible,
// the code is known a little later.
func (a *attacher) watchLoader(pid int) {
	if a.tracer.Config().Everywhere { // as many processes as that would need a probe each
		return
	}
	if _, err := a.tracer.WatchLoader(pid); err != nil && !isGone(err) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.unwatched = err
	}
}

// loaderProblem says why some process's code may be known late, nil if there is none.
func (a *attacher) loaderProblem() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unwatched
}

// intern replaces the files of objects by those that are open already.
func (a *attacher) intern(objects []probe.Object) []probe.Object {
	for i := range objects {
		o := &objects[i]
		id := fileID{o.Major, o.Minor, o.Inode}
		switch known := a.files[id]; known {
		case nil:
			a.files[id] = o.File
		case o.File:
		default:
			_ = o.Close() // it was only read
			o.File = known
		}
	}
	return objects
}

// replace attaches to what discover finds in a process that is stopped at an exec, or that has just mapped code after
// one. It is done once the C library was found, which is the last file that a program may need, or once no loader is
// left that could map it. A caller that gives up before then calls execResumed.
func (a *attacher) replace(pid int, discover func(pid int) ([]probe.Object, error)) (done bool, err error) {
	a.mu.Lock()
	if !a.held[pid] {
		a.held[pid] = true
		delete(a.late, pid)
		a.unmap(pid)
	}
	a.mu.Unlock()
	objects, missing := discover(pid) // if it has none yet, it is looked at again
	_, err = a.extend(pid, objects)
	a.noteTracing(pid, objects, false)
	err = errors.Join(err, a.detachInterpreter(pid, missing))
	if done = err != nil || slices.ContainsFunc(objects, isLast) || missing != nil && !(hasLoader(pid) && notLoadedYet(missing)); done {
		a.execResumed(pid)
		if err == nil && staysWithoutAllocator(pid, missing) {
			a.mu.Lock()
			a.noAllocator[pid] = noAllocatorExec{a.execs[pid], missing}
			a.mu.Unlock()
		}
	}
	return done, err
}

// release is detach, after any attach to the process that is under way.
func (a *attacher) release(pid int) error {
	lock := &a.attaching[pid%len(a.attaching)]
	lock.Lock()
	defer lock.Unlock()
	return a.detach(pid)
}

// unmap notes that a process no longer maps the files of its program before. The lock is held.
func (a *attacher) unmap(pid int) {
	probed := slices.Clone(a.probed[pid]) // others may read the old
	for i := range probed {
		probed[i].Text = nil
	}
	if len(probed) > 0 {
		a.probed[pid] = probed
	}
}

// noAllocatorSince says why no allocator was found in the program of a process's last exec. execs is how many execs
// are known. It is nil if an allocator was found, or if that is not known yet.
func (a *attacher) noAllocatorSince(pid, execs int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.noAllocator[pid]; b.number == execs {
		return b.reason
	}
	return nil
}

// atExec reports whether a process is stopped at an exec.
func (a *attacher) atExec(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[pid]
}

// execResumed notes that a process is no longer stopped at its exec.
func (a *attacher) execResumed(pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[pid] {
		delete(a.held, pid)
		a.execs[pid]++
	}
}

// wasLate reports whether a process ran already when one of its files was
// attached to, or will be with those that are still to come. It is held at
// each of its execs, of which so many are known.
func (a *attacher) wasLate(pid, execs int, news []probe.Object) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[pid] || a.execs[pid] < execs {
		return false
	}
	for _, o := range news {
		if !slices.ContainsFunc(a.probed[pid], func(p probe.Object) bool { return sameFile(&p, &o) }) {
			return true
		}
	}
	return a.late[pid]
}

// beginChildHold notes that a child is stopped at its first instruction.
func (a *attacher) beginChildHold(child int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heldChildren[child] = true
}

// endChildHold notes that the session knows whether the child was attached to.
func (a *attacher) endChildHold(child int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.heldChildren, child)
}

// holdsChild reports whether a child is stopped at its first instruction, or the session does not know yet whether it
// was attached to.
func (a *attacher) holdsChild(child int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heldChildren[child]
}

// inherit attaches to a child as its parent is attached to. held says that the
// child is stopped, so that none of its allocations is missed.
func (a *attacher) inherit(child int, held bool) (err error) {
	parent := a.parent(child)
	defer func() { a.noteInherited(child, parent, err) }()
	objects, known := a.knownOf(parent)
	if !known {
		return fmt.Errorf("attach to process %d: %w", child, errNoParent)
	}
	for deadline := time.Now().Add(detachTimeout); a.tracer.Behind(); time.Sleep(detachPoll) {
		if !held || time.Now().After(deadline) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.skippedChildren++
			return errTooManyChildren
		}
	}
	a.inheritFrees(child, parent)
	if _, err := a.extend(child, slices.Clone(objects)); err != nil {
		return err
	}
	a.inheritTracing(child, parent)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attachedAtStart[child] = held
	a.late[child] = !held
	return nil
}

// inheritProbes notes that a child is probed as its parent is. It is for probes in
// files, which are there for all processes.
func (a *attacher) inheritProbes(child, parent int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probed[child] = a.probed[parent]
}

// ready reports whether all of the objects had their probes before a time, in
// whichever process, as CLOCK_MONOTONIC has it.
func (a *attacher) ready(objects []probe.Object, at uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(objects, func(o probe.Object) bool {
		since := a.since[fileID{o.Major, o.Minor, o.Inode}]
		return since == 0 || since > at
	})
}

// parent is the process that made another, 0 where that is not known any more.
func (a *attacher) parent(pid int) int {
	p, err := a.fs.Process(pid)
	if err != nil {
		return 0
	}
	defer p.Close()
	st, err := p.Stat()
	if err != nil {
		return 0
	}
	return st.PPID
}

// of returns what process pid is probed in. The caller must not change it.
func (a *attacher) of(pid int) []probe.Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.probed[pid]
}

// knownOf is of; known is false for a process that is not attached to. One
// without an allocator is, to nothing.
func (a *attacher) knownOf(pid int) (objects []probe.Object, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	objects, known = a.probed[pid]
	return objects, known
}

// takeAttachedAtStart reports whether a child was attached to before its first
// instruction, and forgets that it was.
func (a *attacher) takeAttachedAtStart(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	born := a.attachedAtStart[pid]
	delete(a.attachedAtStart, pid)
	return born
}

// forget drops a process that is not attached to any more.
func (a *attacher) forget(pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.probed, pid)
	delete(a.looked, pid)
	delete(a.heldChildren, pid)
	delete(a.attachedAtStart, pid)
	delete(a.late, pid)
	delete(a.held, pid)
	delete(a.execs, pid)
	delete(a.noAllocator, pid)
	delete(a.tracing, pid)
	delete(a.stops, pid)
	delete(a.mayCall, pid)
	delete(a.left, pid)
	delete(a.withFrees, pid)
}

// skipped is how many children were not attached to, as too many came.
func (a *attacher) skipped() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.skippedChildren
}

func (a *attacher) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, file := range a.files {
		_ = file.Close() // it was only read
	}
}
