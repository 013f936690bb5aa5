//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/launch"
	"github.com/memtrace/memtrace/tracer/probe"
)

// follower attaches to what appears while a trace runs: children, programs
// that targets execute, and allocators that they load later. Files are read,
// which is slow, in a goroutine of its own.
type follower struct {
	session     *session
	queue       chan search
	results     chan found
	attachQueue chan int
	code        map[int]procfs.CodeSum // per target, what was mapped at the last look
	noticed     map[int]bool           // children whose fork has been noticed
	early       []event.Event          // forks that were read before that of the process that forked
}

// search asks what to probe in a process.
type search struct {
	pid     int
	child   bool // it is a new child
	exec    bool // it has replaced its program
	stopped bool // it is stopped meanwhile: at its first instruction or at an exec

	loaded   bool // it has loaded the code while it ran, and has its probes before that runs
	reported bool // its loader reported the code, and did not stop for it

	held  *procfs.Held
	until time.Time // when to give up: a new program needs time to load its libraries
}

// found is the answer.
type found struct {
	search
	objects []probe.Object
	err     error
}

const (
	maxSearches = 4096
	// loadTimeout is how long a new program may take to load its allocator.
	loadTimeout = 10 * time.Second
	loadPoll    = 2 * time.Millisecond
)

func newFollower(s *session) *follower {
	f := &follower{
		session: s, queue: make(chan search, maxSearches), results: make(chan found, maxSearches),
		attachQueue: make(chan int, maxSearches), code: make(map[int]procfs.CodeSum), noticed: make(map[int]bool),
	}
	go f.work()
	for range attachWorkers {
		go f.attachWorker()
	}
	return f
}

// attachWorkers attach to children that run. Most of the time they wait for the kernel.
const attachWorkers = 4

func (f *follower) attachWorker() {
	for pid := range f.attachQueue {
		f.answer(found{search: search{pid: pid, child: true}, err: f.session.attacher.inherit(pid, false)})
	}
}

// queueAttach queues a running child for the attachWorkers.
func (f *follower) queueAttach(pid int) {
	select {
	case f.attachQueue <- pid:
	default:
		f.session.missed++
	}
}

// answer hands a result to the session. It does not wait for it, as a process
// may stand still meanwhile.
func (f *follower) answer(r found) {
	select {
	case f.results <- r:
	default:
		go func() { f.results <- r }()
	}
}

// work answers searches, in order. A process that is not ready goes to the end.
func (f *follower) work() {
	for q := range f.queue {
		objects, err := f.session.finder.Discover(q.pid)
		if q.exec && notLoadedYet(err) && !staysWithoutAllocator(q.pid, err) && time.Now().Before(q.until) && (q.held == nil || q.held.Alive()) {
			time.Sleep(loadPoll)
			select {
			case f.queue <- q:
				continue
			default:
			}
		}
		f.answer(found{q, objects, err})
	}
}

func (f *follower) ask(q search) {
	if f.session.settings.tracer.Touch {
		return // no allocator gets a probe
	}
	q.until = time.Now().Add(loadTimeout)
	select {
	case f.queue <- q:
	default:
		f.session.warn("too many new processes at once: process %d is not traced", q.pid)
		if q.exec {
			f.session.noteUntraced(q.pid, errTooMany)
		}
	}
}

// later is ask, from any goroutine, for what rescan would find anyway.
func (f *follower) later(q search) {
	if f.session.settings.tracer.Touch {
		return
	}
	select {
	case f.queue <- q:
	default:
	}
}

var errTooMany = errors.New("there were too many new processes at once to look into it")

// notice looks at forks and execs as soon as they are read.
func (f *follower) notice(e event.Event) {
	if e.Kind == event.Exec {
		if err := f.session.tracer.ReloadMaps(int(e.PID)); err != nil && !isGone(err) {
			f.session.warn("%v", err)
		}
	}
	if e.Kind != event.Fork || f.session.tracer.Config().NoFollow {
		return
	}
	if parent := int(e.PID); f.noticed[parent] || f.session.targets[parent] != nil {
		f.fork(e)
	} else {
		f.early = append(f.early, e) // each CPU's are read in turn
	}
}

// fork notices a fork, and those of the child that were read before it.
func (f *follower) fork(e event.Event) {
	child := int(e.Child)
	f.noticed[child] = true
	f.session.inheritNames(e)
	f.attachChild(child, int(e.PID))
	for {
		i := slices.IndexFunc(f.early, func(e event.Event) bool { return int(e.PID) == child })
		if i < 0 {
			return
		}
		next := f.early[i]
		f.early = slices.Delete(f.early, i, i+1)
		f.fork(next)
	}
}

// noticePending notices a fork in the order of events, if it has not been noticed as it was read.
func (f *follower) noticePending(e event.Event) {
	if i := slices.Index(f.early, e); i >= 0 {
		f.early = slices.Delete(f.early, i, i+1)
		f.fork(e)
	}
}

// attachChild gives a child its parent's probes, unless it is held and gets them at its first instruction.
func (f *follower) attachChild(child, parent int) {
	switch {
	case f.session.seesAnyProcess():
		f.session.attacher.inheritProbes(child, parent) // its probes are in the files
	case f.session.holds(parent):
		f.session.guarded[child] = true // it is held at its first instruction
	default:
		f.queueAttach(child)
	}
}

// inheritNames has a new child's code named as its parent's. Stacks of a process that
// had its PID before are named first: their addresses mean something else.
func (s *session) inheritNames(e event.Event) {
	if t := s.targets[int(e.Child)]; t == nil || t.since < e.Time {
		s.nameStacks(s.analyzer.UnnamedOf(e.Child, nil))
	}
	s.names.Forked(int(e.Child), int(e.PID), e.Time)
}

// rename names what is known of a program that another replaced: its addresses
// mean something else from then on.
func (s *session) rename(pid int, at uint64) {
	s.nameStacks(s.analyzer.UnnamedOf(uint32(pid), nil))
	s.names.Executed(pid, at)
}

// execed starts afresh with a process that replaced its program.
func (f *follower) execed(e event.Event) {
	pid := int(e.PID)
	t := f.session.targets[pid]
	if t != nil {
		t.replaced, t.unsure = true, false
		t.newHeap()
	}
	if f.session.ptracedByOther[pid] {
		return
	}
	if f.session.leaks && f.session.holds(pid) && t != nil {
		t.shared = false
		return // executed attaches to it, while it is stopped
	}
	if f.session.settings.tracer.Touch {
		f.session.execedTouch(t, pid, e.Time)
		return
	}
	if t == nil {
		if !f.session.tracer.Config().NoFollow {
			f.ask(search{pid: pid, exec: true})
		}
		return
	}
	t.execed, t.shared, t.noAllocator, t.allocatesNothing = e.Time, false, false, false
	t.execs++
	if e.Child != e.PID && !f.session.standsAtExec(pid) && !f.session.tracer.Config().Everywhere {
		// The kernel's scope went with the thread that led the process.
		if err := f.session.tracer.DetachLost(pid); err != nil {
			f.session.warn("%v", err)
		}
		f.session.attacher.forget(pid)
		t.objects, t.left = nil, nil
	}
	reason := f.session.attacher.noAllocatorSince(pid, t.execs)
	if f.session.tracesWithoutAllocator(reason) && !f.session.stopping {
		f.session.execedWithoutAllocator(pid, reason) // it may have ended, or execute the next one already
		return
	}
	f.ask(search{pid: pid, exec: true, held: t.held})
}

// rescan looks for allocators that the process loaded since the last look.
func (f *follower) rescan(t *target) {
	code, err := t.held.CodeSum()
	if err != nil {
		return // it ended, which is noticed elsewhere
	}
	before, seen := f.code[t.pid]
	f.code[t.pid] = code
	// It may have loaded one before it was watched for that: a child of one that was is.
	unseen := !seen && (t.unsure || !t.child || !f.session.tracer.WatchesLoader(t.pid))
	if unseen || seen && before != code {
		f.ask(search{pid: t.pid, held: t.held})
	}
}

// followed attaches to what was found.
func (s *session) followed(r found) {
	t := s.targets[r.pid]
	if err := s.attacher.detachInterpreter(r.pid, r.err); err != nil { // it was not held at its exec
		s.warn("%v", err)
	}
	switch {
	case r.child:
		s.childAttached(r)
		return
	case s.stopping && (r.err == nil || s.tracesWithoutAllocator(r.err)):
		// Nothing is attached to any more; what failed is still reported.
		probe.CloseAll(r.objects)
		return
	case r.loaded && r.err == nil && t != nil && !t.exited && !t.noAllocator:
		s.extended(t, r.objects)
		return
	case isGone(r.err), r.err != nil && !s.alive(r.pid):
		return
	case r.exec && s.tracesWithoutAllocator(r.err) && (t != nil || !s.tracer.Config().Everywhere):
		s.execedWithoutAllocator(r.pid, r.err)
		return
	case r.err != nil:
		if t == nil || r.exec {
			s.warn("process %d is not traced any further: %v", r.pid, r.err)
		}
		if r.exec && (t != nil || !s.tracer.Config().Everywhere) {
			s.noteUntraced(r.pid, r.err)
		}
		return
	}
	if t == nil || t.exited {
		var err error
		if t, err = holdRunning(s.fs, r.pid); err != nil {
			probe.CloseAll(r.objects)
			return // it ended
		}
		t.child = true
	}
	s.extend(t, r)
}

// extend attaches to the objects that are new.
func (s *session) extend(t *target, r found) {
	known := s.targets[t.pid] == t
	news := t.news(r.objects)
	whole := false
	if known && !r.exec {
		var ok bool
		if news, ok = s.lateNews(t, r, news); !ok {
			return
		}
		whole = t.base == nil && r.loaded
	}
	// Probes on a file outlive exec: where the new program uses the same
	// files, none of its blocks was missed.
	if r.exec {
		t.space = nil // of the program before; the names it gave stay
		whole = len(news) == 0 && len(t.objects) > 0 && t.probed != 0 && t.probed < t.execed || s.wasHeldAtExec(t, news)
	}
	if r.exec && s.tracer.Config().Everywhere {
		whole = s.attacher.ready(r.objects, t.execed)
	}
	if whole {
		t.base = nil
	}
	t.found(r.objects, r.exec)
	if err := s.attachTarget(t, r.objects, whole); err != nil {
		if !isGone(err) {
			s.warn("%v", err)
		}
		return
	}
	s.say("attached to process %d (%d more files)", t.pid, len(news))
}

// lateNews are a running process's allocators that have no probes yet. It warns that they ran without any, and
// reports whether they are to be probed now.
func (s *session) lateNews(t *target, r found, news []probe.Object) ([]probe.Object, bool) {
	still := s.standsStill(t.pid)  // asked before what it has: it may get its probes, and run, in between
	probed := s.attacher.of(t.pid) // the session may not have been told yet
	if len(probed) == 0 && !t.noAllocator {
		return nil, false // it is about to get its first, as a child or at an exec
	}
	news = slices.DeleteFunc(news, func(o probe.Object) bool { return hasFile(probed, &o) })
	if r.loaded || len(news) == 0 {
		return news, len(news) > 0
	}
	if !r.reported && (still || !t.unsure && (t.child || s.tracer.WatchesLoader(t.pid))) {
		// Its loader or an exec event may be about to report it; otherwise it is found again. An exec event may come
		// late on a busy machine, but a process that still stands at its exec has run nothing.
		t.unsure = true
		delete(s.follower.code, t.pid)
		return nil, false
	}
	t.unsure = false
	s.warn("process %d had loaded %s before its probes were there: what it allocated from that until then is not seen",
		t.pid, strings.Join(allocatorNames(news, nil), ", "))
	return news, true
}

// standsStill reports whether a process is stopped, by us, at an exec or at code that it has loaded, or is about to be.
func (s *session) standsStill(pid int) bool { return s.attacher.atExec(pid) || launch.Holds(pid) }

// extended notes allocators that a process has loaded and that got their probes before they ran.
func (s *session) extended(t *target, news []probe.Object) {
	t.objects = s.attacher.of(t.pid)
	t.found(news, false)
	s.take(input.Described{ProcessInfo: s.describe(t)})
	s.warnOfUnseen(t)
	s.say("attached to process %d (%d more files)", t.pid, len(news))
}

// alive reports whether a process still runs. Much that fails only does so
// because it has ended meanwhile.
func (s *session) alive(pid int) bool {
	held, err := s.fs.Hold(pid)
	if err != nil {
		return false
	}
	defer held.Close()
	return !exiting(held)
}

// isGone reports whether an error says that a process has ended; one that is
// about to has no memory any more, as kernel threads have none.
func isGone(err error) bool {
	return errors.Is(err, procfs.ErrGone) || errors.Is(err, os.ErrProcessDone) || errors.Is(err, probe.ErrKernelThread) ||
		errors.Is(err, unix.ESRCH) // of perf_event_open and of a multi-uprobe link
}
