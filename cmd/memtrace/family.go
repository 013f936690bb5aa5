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

// A family attaches to processes and knows which files each is probed in. So a
// child can be attached to at once: it begins with its parent's mappings, and
// nothing needs to be looked for. Its methods may be called from any
// goroutine; a child that stands still must not wait for a Report.
type family struct {
	tracer *tracer.Tracer
	fs     procfs.FS

	attaching [16]sync.Mutex // by process: no file is attached to twice
	looking   [16]sync.Mutex // by process: what is mapped is looked into once

	mu     sync.Mutex
	probed map[int][]probe.Object
	births map[int]bool           // children that stand still at their birth, until the session knows what came of it
	born   map[int]bool           // children attached to before their first instruction, until the session asks
	looked map[int]probe.Mappings // what was looked into for allocators as it was mapped; guarded by looking
	held   map[int]bool           // processes that stand still at an exec
	execs  map[int]int            // how often they have
	bare   map[int]bareExec
	late   map[int]bool // processes that ran already when some of their files were attached to
	files  map[fileID]*os.File
	since  map[fileID]uint64 // ns: when each file was first attached to
	alone  int               // children left alone, as too many came
	notes  []string          // why objects were left alone

	tracing map[int]probe.Tracing // what each program may want ptrace for
	stops   map[int]fileID        // processes that stop as they call ptrace, and the file that has it

	unwatched error // of watchLoader
}

// fileID tells mapped files apart.
type fileID struct {
	major, minor uint32
	inode        uint64
}

// bareExec is the exec of a program without an allocator.
type bareExec struct {
	number int   // among the process's, from 1
	reason error // why none was found
}

// errCrowded: so many children come and go that their probes cannot be
// removed as fast.
var errCrowded = errors.New("too many short-lived children")

// errNoParent: a child that runs has outlived its parent, or comes before it was
// attached to itself.
var errNoParent = errors.New("nothing is known of its parent")

const (
	// birthPatience is how long a child waits at its birth for the probes of
	// others to be removed.
	birthPatience = 200 * time.Millisecond
	birthPoll     = time.Millisecond
)

func newFamily(t *tracer.Tracer, fs procfs.FS) *family {
	return &family{
		tracer: t, fs: fs,
		probed: make(map[int][]probe.Object), births: make(map[int]bool), born: make(map[int]bool),
		held: make(map[int]bool), late: make(map[int]bool), execs: make(map[int]int), bare: make(map[int]bareExec), files: make(map[fileID]*os.File),
		since: make(map[fileID]uint64), looked: make(map[int]probe.Mappings),
		tracing: make(map[int]probe.Tracing), stops: make(map[int]fileID),
	}
}

// look attaches to the allocators in code that a process has mapped since the last
// look, and returns those that are new. The thread that mapped it stands still.
func (f *family) look(pid int, discover func(pid int, known probe.Mappings) ([]probe.Object, error)) ([]probe.Object, error) {
	lock := &f.looking[pid%len(f.looking)]
	lock.Lock()
	defer lock.Unlock()
	f.mu.Lock()
	known := f.looked[pid]
	if known == nil {
		known = make(probe.Mappings)
		f.looked[pid] = known
	}
	late := f.late[pid]
	f.mu.Unlock()
	objects, err := discover(pid, known)
	if err != nil {
		return nil, err
	}
	news, err := f.extend(pid, objects)
	f.noteTracing(pid, objects, true)
	f.mu.Lock()
	f.late[pid] = late // nobody has run the code yet
	f.mu.Unlock()
	return news, err
}

// extend attaches to those of a process's objects that it is not attached to
// yet, and returns them. The files are the family's from then on.
func (f *family) extend(pid int, objects []probe.Object) (news []probe.Object, err error) {
	lock := &f.attaching[pid%len(f.attaching)]
	lock.Lock()
	defer lock.Unlock()
	f.mu.Lock()
	f.relocate(pid, objects)
	for _, o := range f.intern(objects) {
		if !slices.ContainsFunc(f.probed[pid], func(p probe.Object) bool { return sameFile(&p, &o) }) {
			news = append(news, o)
		}
	}
	f.mu.Unlock()
	if news, err = f.attach(pid, news); err != nil {
		return nil, err
	}
	if len(objects) > 0 { // an interpreter of machine code reads the loader's code, too
		f.watchLoader(pid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed[pid] = slices.Concat(f.probed[pid], news)
	for _, o := range news {
		if id := (fileID{o.Major, o.Minor, o.Inode}); f.since[id] == 0 {
			f.since[id] = now()
		}
	}
	if len(news) > 0 && !f.held[pid] {
		f.late[pid] = true
	}
	return news, nil
}

// relocate notes where a process has mapped those of its objects that it is attached to
// already: after an exec that is elsewhere. The lock is held.
func (f *family) relocate(pid int, objects []probe.Object) {
	probed := slices.Clone(f.probed[pid]) // others may read the old
	for i := range probed {
		for _, o := range objects {
			if sameFile(&probed[i], &o) {
				probed[i].Text = o.Text
			}
		}
	}
	if len(probed) > 0 {
		f.probed[pid] = probed
	}
}

// attach attaches to those objects whose code nobody has changed, and returns them. It is an error if there is no other.
func (f *family) attach(pid int, objects []probe.Object) ([]probe.Object, error) {
	unpatched, reasons := probe.Unpatched(f.fs.Root(), pid, objects, false)
	if len(unpatched) == 0 && len(reasons) > 0 {
		return nil, fmt.Errorf("attach to process %d: %w: it is left alone", pid, errors.Join(reasons...))
	}
	f.note(pid, reasons)
	if err := f.tracer.Attach(pid, unpatched); err != nil {
		return nil, err
	}
	// It may have been changed meanwhile.
	if _, reasons = probe.Unpatched(f.fs.Root(), pid, unpatched, true); len(reasons) > 0 {
		return nil, fmt.Errorf("attach to process %d: %w: it is left alone", pid, errors.Join(append(reasons, f.withdraw(pid))...))
	}
	return unpatched, nil
}

// note keeps why objects of a process are left alone until somebody asks.
func (f *family) note(pid int, reasons []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, reason := range reasons {
		if text := fmt.Sprintf("process %d: %v: it is left alone", pid, reason); len(f.notes) < maxWarnings && !slices.Contains(f.notes, text) {
			f.notes = append(f.notes, text)
		}
	}
}

// noted is what was noted since the last time.
func (f *family) noted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	notes := f.notes
	f.notes = nil
	return notes
}

// spare takes all probes off a process that stands still at its exec, where nothing was found in its new program because that
// is an interpreter of machine code: it is about to map the files that its predecessor was probed in.
func (f *family) spare(pid int, missing error) error {
	if !errors.Is(missing, probe.ErrInterpreter) {
		return nil
	}
	return f.withdraw(pid)
}

// withdraw takes all probes off a process.
func (f *family) withdraw(pid int) error {
	f.mu.Lock()
	delete(f.probed, pid)
	delete(f.stops, pid)
	f.mu.Unlock()
	return f.tracer.Detach(pid)
}

// watchLoader has code that a process loads known before it runs. Where that can't be,
// it is known a little later.
func (f *family) watchLoader(pid int) {
	if f.tracer.Config().Everywhere { // as many processes as that would need a probe each
		return
	}
	if _, err := f.tracer.WatchLoader(pid); err != nil && !isGone(err) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unwatched = err
	}
}

// loaderProblem says why code that some process loads may be known late only, nil if none does.
func (f *family) loaderProblem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unwatched
}

// intern replaces the files of objects by those that are open already.
func (f *family) intern(objects []probe.Object) []probe.Object {
	for i := range objects {
		o := &objects[i]
		id := fileID{o.Major, o.Minor, o.Inode}
		switch known := f.files[id]; known {
		case nil:
			f.files[id] = o.File
		case o.File:
		default:
			_ = o.Close() // it was only read
			o.File = known
		}
	}
	return objects
}

// replace attaches to a process that stands still at an exec, or has just
// mapped code after one, to what discover finds in it. It is done once the C
// library is among that, which is the last that a program could need, or once
// there is no loader that could still map it. A process that is let go before
// then is settled.
func (f *family) replace(pid int, discover func(pid int) ([]probe.Object, error)) (done bool, err error) {
	f.mu.Lock()
	if !f.held[pid] {
		f.held[pid] = true
		delete(f.late, pid)
		f.unmap(pid)
	}
	f.mu.Unlock()
	objects, missing := discover(pid) // if it has none yet, it is looked at again
	_, err = f.extend(pid, objects)
	f.noteTracing(pid, objects, false)
	err = errors.Join(err, f.spare(pid, missing))
	if done = err != nil || slices.ContainsFunc(objects, isLast) || missing != nil && !(hasLoader(pid) && notLoadedYet(missing)); done {
		f.settle(pid)
		if err == nil && staysBare(pid, missing) {
			f.mu.Lock()
			f.bare[pid] = bareExec{f.execs[pid], missing}
			f.mu.Unlock()
		}
	}
	return done, err
}

// release is withdraw where nobody is attaching to the process.
func (f *family) release(pid int) error {
	lock := &f.attaching[pid%len(f.attaching)]
	lock.Lock()
	defer lock.Unlock()
	return f.withdraw(pid)
}

// unmap notes that a process has mapped nothing of what its program before had. The lock is held.
func (f *family) unmap(pid int) {
	probed := slices.Clone(f.probed[pid]) // others may read the old
	for i := range probed {
		probed[i].Text = nil
	}
	if len(probed) > 0 {
		f.probed[pid] = probed
	}
}

// bareSince says why no allocator was found in the program of a process's last
// exec, of which so many are known; nil: one was, or that is not known yet.
func (f *family) bareSince(pid, execs int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.bare[pid]; b.number == execs {
		return b.reason
	}
	return nil
}

// atExec reports whether a process stands still at an exec already.
func (f *family) atExec(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[pid]
}

// settle notes that a process does not stand still at its exec any more.
func (f *family) settle(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[pid] {
		delete(f.held, pid)
		f.execs[pid]++
	}
}

// wasLate reports whether a process ran already when one of its files was
// attached to, or will be with those that are still to come. It is held at
// each of its execs, of which so many are known.
func (f *family) wasLate(pid, execs int, news []probe.Object) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[pid] || f.execs[pid] < execs {
		return false
	}
	for _, o := range news {
		if !slices.ContainsFunc(f.probed[pid], func(p probe.Object) bool { return sameFile(&p, &o) }) {
			return true
		}
	}
	return f.late[pid]
}

// beginBirth notes that a child stands still at its birth.
func (f *family) beginBirth(child int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.births[child] = true
}

// endBirth notes that the session knows what came of a birth.
func (f *family) endBirth(child int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.births, child)
}

// atBirth reports whether a child stands still at its birth, or the session does not know yet what came of it.
func (f *family) atBirth(child int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.births[child]
}

// inherit attaches to a child as its parent is attached to. held says that the
// child stands still, so that none of its allocations is missed.
func (f *family) inherit(child int, held bool) error {
	parent := f.parent(child)
	objects, known := f.knownOf(parent)
	if !known {
		return fmt.Errorf("attach to process %d: %w", child, errNoParent)
	}
	for deadline := time.Now().Add(birthPatience); f.tracer.Behind(); time.Sleep(birthPoll) {
		if !held || time.Now().After(deadline) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.alone++
			return errCrowded
		}
	}
	if _, err := f.extend(child, slices.Clone(objects)); err != nil {
		return err
	}
	f.inheritTracing(child, parent)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.born[child] = held
	f.late[child] = !held
	return nil
}

// like notes that a child is probed as its parent is, where probes are in
// files, for all processes.
func (f *family) like(child, parent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed[child] = f.probed[parent]
}

// ready reports whether all of the objects had their probes before a time, in
// whichever process, as CLOCK_MONOTONIC has it.
func (f *family) ready(objects []probe.Object, at uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(objects, func(o probe.Object) bool {
		since := f.since[fileID{o.Major, o.Minor, o.Inode}]
		return since == 0 || since > at
	})
}

// parent is the process that made another, 0 where that is not known any more.
func (f *family) parent(pid int) int {
	p, err := f.fs.Process(pid)
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
func (f *family) of(pid int) []probe.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probed[pid]
}

// knownOf is of; known is false for a process that is not attached to. One
// without an allocator is, to nothing.
func (f *family) knownOf(pid int) (objects []probe.Object, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects, known = f.probed[pid]
	return objects, known
}

// wasBorn reports whether a child was attached to before its first
// instruction, and forgets that it was.
func (f *family) wasBorn(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	born := f.born[pid]
	delete(f.born, pid)
	return born
}

// forget drops a process that is not attached to any more.
func (f *family) forget(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.probed, pid)
	delete(f.looked, pid)
	delete(f.births, pid)
	delete(f.born, pid)
	delete(f.late, pid)
	delete(f.held, pid)
	delete(f.execs, pid)
	delete(f.bare, pid)
	delete(f.tracing, pid)
	delete(f.stops, pid)
}

// leftAlone is how many children were not attached to, as too many came.
func (f *family) leftAlone() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alone
}

func (f *family) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		_ = file.Close() // it was only read
	}
}
