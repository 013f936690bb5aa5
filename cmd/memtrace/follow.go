package main

import (
	"errors"
	"os"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
)

// follower attaches to what appears while a trace runs: children, programs
// that targets execute, and allocators that they load later. The slow part,
// looking into files, is done in a goroutine of its own.
type follower struct {
	session *session
	queue   chan search
	results chan found
	code    map[int]uint64 // per target, what was mapped at the last look
}

// search asks what to probe in a process.
type search struct {
	pid   int
	exec  bool // it has replaced its program
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
	// loadPatience is how long a new program may take to load its allocator.
	loadPatience = 10 * time.Second
	loadPoll     = 2 * time.Millisecond
)

func newFollower(s *session) *follower {
	f := &follower{
		session: s, queue: make(chan search, maxSearches), results: make(chan found, maxSearches),
		code: make(map[int]uint64),
	}
	go f.work()
	return f
}

// work answers searches, in order. A process that is not ready goes to the end.
func (f *follower) work() {
	for q := range f.queue {
		objects, err := probe.Discover(f.session.fs.Root(), q.pid)
		notYet := errors.Is(err, probe.ErrNoAllocator) || errors.Is(err, probe.ErrGoProgram)
		if notYet && q.exec && time.Now().Before(q.until) && (q.held == nil || q.held.Alive()) {
			time.Sleep(loadPoll)
			select {
			case f.queue <- q:
				continue
			default:
			}
		}
		f.results <- found{q, objects, err}
	}
}

func (f *follower) ask(q search) {
	q.until = time.Now().Add(loadPatience)
	select {
	case f.queue <- q:
	default:
		f.session.warn("too many new processes at once: process %d is not traced", q.pid)
	}
}

// notice looks at forks and execs as soon as they are read.
func (f *follower) notice(e event.Event) {
	if e.Kind == event.Exec {
		// The addresses of the program before mean something else from now on.
		f.session.analyzer.NameStacks(e.PID, f.session.names)
		if err := f.session.tracer.ReloadMaps(int(e.PID)); err != nil && !isGone(err) {
			f.session.warn("%v", err)
		}
	}
	if e.Kind != event.Fork || f.session.tracer.Config().NoFollow || e.Flags&event.FlagSharedVM != 0 {
		return
	}
	if f.session.guarded[int(e.PID)] {
		f.session.guarded[int(e.Child)] = true // its birth is a visit
		return
	}
	f.ask(search{pid: int(e.Child)})
}

// execed starts afresh with a process that replaced its program.
func (f *follower) execed(e event.Event) {
	pid := int(e.PID)
	guarded := f.session.guarded[pid]
	if t := f.session.targets[pid]; t != nil {
		if !guarded {
			f.ask(search{pid: pid, exec: true, held: t.held})
		}
		if e.Child != e.PID {
			// The kernel's scope went with the thread that led the process.
			if err := f.session.tracer.Detach(pid); err != nil {
				f.session.warn("%v", err)
			}
			probe.CloseAll(t.objects)
			t.objects = nil
		}
		return
	}
	if !guarded && !f.session.tracer.Config().NoFollow {
		f.ask(search{pid: pid, exec: true})
	}
}

// rescan looks for allocators that the process loaded since the last look.
func (f *follower) rescan(t *target) {
	var code uint64
	err := t.held.Maps(func(v *procfs.VMA) {
		if v.Perms&procfs.Exec != 0 && v.Inode != 0 {
			code = (code ^ v.Inode ^ v.Start) * 0x9e3779b97f4a7c15
		}
	})
	if err != nil {
		return // it ended, which is noticed elsewhere
	}
	before, seen := f.code[t.pid]
	f.code[t.pid] = code
	if seen && before != code {
		f.ask(search{pid: t.pid, held: t.held})
	}
}

// followed attaches to what was found.
func (s *session) followed(r found) {
	t := s.targets[r.pid]
	if s.stopping || isGone(r.err) {
		probe.CloseAll(r.objects)
		if t == nil && !r.exec {
			s.missed++
		}
		return
	}
	if r.err != nil {
		if t == nil || r.exec {
			s.warn("process %d is not traced any further: %v", r.pid, r.err)
		}
		return
	}
	if t == nil || t.exited {
		var err error
		if t, err = holdTarget(s.fs, r.pid); err != nil {
			probe.CloseAll(r.objects)
			s.missed++ // it ended
			return
		}
	}
	s.extend(t, r)
}

// extend attaches to the objects that are new.
func (s *session) extend(t *target, r found) {
	news := t.news(r.objects)
	if r.exec {
		t.space = nil // of the program before; the names it gave stay
	}
	// Probes on a file outlive exec: where the new program uses the same
	// files, none of its blocks was missed.
	complete := r.exec && len(news) == 0 && len(t.objects) > 0
	if err := s.adopt(t, news, complete || t.base == nil && s.targets[t.pid] == t && !r.exec); err != nil {
		s.warn("%v", err)
		return
	}
	s.say("attached to process %d (%d more files)", t.pid, len(news))
}

// isGone reports whether an error says that a process has ended; one that is
// about to has no memory any more, as kernel threads have none.
func isGone(err error) bool {
	return errors.Is(err, procfs.ErrGone) || errors.Is(err, os.ErrProcessDone) || errors.Is(err, probe.ErrKernelThread)
}
