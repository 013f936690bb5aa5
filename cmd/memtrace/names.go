//go:build linux && !viewer

package main

import (
	"slices"
	"sync"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/python"
)

// namer names the code addresses of the traced processes.
type namer struct {
	resolver *symbol.Resolver
	python   func(frame uint64) (python.Name, bool) // what a Python frame is called

	looking [16]sync.Mutex // by process: its mappings are read once at a time

	mu      sync.Mutex
	pythons map[uint64]*input.Frame // those that were named: as many as python has names
	spaces  map[int]*symbol.Space
	made    map[int]uint64         // when that of each process was, if it is the process's own
	forked  map[int]uint64         // when processes were forked that go by their parents' spaces
	all     map[*symbol.Space]bool // those to be closed
	ended   int                    // how many of them are of processes that have ended
	fresh   map[int]bool           // processes that execute a program whose space is not known yet
	next    map[int][]upcoming     // in order
	ahead   map[int]int            // how many execs of each process are still to come among the events
	final   map[int]bool           // processes that have ended, and have their last names
	stopped map[int]uint64         // when each process last stood still at an exec
	read    map[int]uint64         // when the last exec was that has come among the events
	asked   map[int]bool           // processes whose JIT compilers are asked for names: code without one may have it later
}

// upcoming is the space of a program whose exec is still to come among the
// events: it is the execs-th of those that are.
type upcoming struct {
	space *symbol.Space
	execs int
}

func newNamer(o symbol.Options, python func(frame uint64) (python.Name, bool)) *namer {
	return &namer{
		python: python, pythons: make(map[uint64]*input.Frame),
		resolver: symbol.NewResolver(o), spaces: make(map[int]*symbol.Space), fresh: make(map[int]bool),
		made: make(map[int]uint64), forked: make(map[int]uint64), all: make(map[*symbol.Space]bool),
		next: make(map[int][]upcoming), ahead: make(map[int]int), final: make(map[int]bool),
		stopped: make(map[int]uint64), read: make(map[int]uint64), asked: make(map[int]bool),
	}
}

// set makes s the address space of process pid from now on, read at a time, ns of CLOCK_MONOTONIC.
// Where it is that of a program whose exec is still to come among the events,
// what came before keeps its names. It is refused once last has seen all that
// there will be: files that are opened while a process ends cannot all be.
func (n *namer) set(pid int, s *symbol.Space, at uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.final[pid] {
		return false
	}
	if n.ahead[pid] > 0 {
		n.await(pid, s)
		return true
	}
	n.begin(pid, s, at)
	delete(n.fresh, pid)
	return true
}

// begin gives process pid a space of its own, read at a time. What it ran before, as a child that has executed
// a program by now, keeps its parent's names: its fork may have been read while s was.
func (n *namer) begin(pid int, s *symbol.Space, at uint64) {
	if forked := n.forked[pid]; forked != 0 {
		s.Inherit(n.spaces[pid], forked, at)
	}
	n.spaces[pid], n.made[pid] = s, at
	delete(n.forked, pid)
}

// look reads what process pid has mapped by now, ns of CLOCK_MONOTONIC, and returns its
// space: that of the last program that it has executed. Of a process that has just
// ended it keeps what there is. It may be called from any goroutine. The space is the
// namer's; it is nil where the process has ended.
func (n *namer) look(root string, pid int, at uint64, alive func() bool) (*symbol.Space, error) {
	lock := &n.looking[pid%len(n.looking)]
	lock.Lock()
	defer lock.Unlock()
	s, parent, forked := n.newest(pid)
	if s != nil {
		return s, s.Refresh(at)
	}
	var err error
	if parent != nil {
		s, err = parent.Fork(root, pid, forked, at)
	} else {
		s, err = symbol.NewSpace(root, pid)
	}
	if err != nil {
		return nil, err
	}
	if parent != nil && !alive() || !n.set(pid, s, at) {
		s.Close()
		return nil, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[s] = true
	return s, nil
}

// newest returns the space of the last program that process pid has executed; or its
// parent's, where it has none of its own, and when it was forked.
func (n *namer) newest(pid int) (own, parent *symbol.Space, forked uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ahead[pid] > 0 {
		return n.coming(pid), nil, 0
	}
	if forked := n.forked[pid]; forked != 0 {
		return nil, n.spaces[pid], forked
	}
	return n.spaces[pid], nil, 0
}

// coming returns the space of the last program that process pid has executed, where
// its exec is still to come among the events; nil: it is not known yet.
func (n *namer) coming(pid int) *symbol.Space {
	list := n.next[pid]
	if len(list) == 0 || list[len(list)-1].execs != n.ahead[pid] {
		return nil
	}
	return list[len(list)-1].space
}

// await keeps the space of the last program that process pid has executed until
// the events get to its exec.
func (n *namer) await(pid int, s *symbol.Space) {
	u := upcoming{s, n.ahead[pid]}
	if list := n.next[pid]; len(list) > 0 && list[len(list)-1].execs == u.execs {
		list[len(list)-1] = u
		return
	}
	n.next[pid] = append(n.next[pid], u)
}

// like has a new process's code named as that of its parent was when it forked, ns of
// CLOCK_MONOTONIC. Where it has been looked at since, that holds for what came before:
// it may have executed a program meanwhile.
func (n *namer) like(pid, parent int, at uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, forked := n.spaces[parent], at
	if before := n.forked[parent]; before != 0 {
		forked = before
	}
	if n.ahead[parent] > 0 && n.stopped[parent] < at {
		s, forked = n.coming(parent), at // the events are not there yet
	}
	if own := n.spaces[pid]; own != nil && n.made[pid] > at {
		if s != nil {
			own.Inherit(s, forked, n.made[pid])
		}
		return
	}
	delete(n.made, pid)
	if s == nil {
		delete(n.spaces, pid)
		delete(n.forked, pid)
		return
	}
	n.spaces[pid], n.forked[pid] = s, forked
}

// replaced notes, while process pid stands still at an exec, that its names are
// to be others; or, where it is not the first time for this exec, that there
// are more. at is the time, ns of CLOCK_MONOTONIC. It may be called from any
// goroutine, and after the exec's event has been read.
func (n *namer) replaced(pid int, first bool, at uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fresh[pid] = true
	if !first {
		return
	}
	if n.read[pid] <= n.stopped[pid] { // what was read last is an exec before
		n.ahead[pid]++
	}
	n.stopped[pid] = at
}

// last gives a process that ends now, and still has its memory, the names of
// the program that it executed, if nobody had the time to look for them
// before. It may be called from any goroutine. at is the time, ns of CLOCK_MONOTONIC.
func (n *namer) last(root string, pid int, at uint64) {
	n.mu.Lock()
	fresh := n.fresh[pid]
	n.mu.Unlock()
	if !fresh {
		return
	}
	s, err := symbol.NewSpace(root, pid)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[s] = true
	if !n.keepEnded(s) {
		return
	}
	n.final[pid] = true
	if n.ahead[pid] > 0 {
		n.await(pid, s)
		return
	}
	n.begin(pid, s, at)
}

// maxEnded is how many spaces of ended processes are kept: more than there are
// processes whose sites are listed one by one.
const maxEnded = 2048

// keep drops the space of process pid, which has ended, if there are too many.
func (n *namer) keep(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.spaces[pid]; s != nil && n.made[pid] != 0 && !n.final[pid] && !n.keepEnded(s) {
		delete(n.spaces, pid)
		delete(n.made, pid)
	}
}

// keepEnded notes that s is of a program that has ended. It reports whether s is kept.
func (n *namer) keepEnded(s *symbol.Space) bool {
	if n.ended >= maxEnded {
		delete(n.all, s)
		s.Close()
		return false
	}
	n.ended++
	return true
}

// executed changes the names of process pid to those of its new program, once
// those of the one before are not needed any more. at is when the exec was.
func (n *namer) executed(pid int, at uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.read[pid] = at
	if n.ahead[pid] > 0 {
		n.ahead[pid]--
	}
	if n.made[pid] <= at { // else it was read since, and is of the new program
		n.drop(pid)
	}
	list := n.next[pid]
	for i := range list {
		list[i].execs--
	}
	if len(list) > 0 && list[0].execs <= 0 {
		n.drop(pid)
		n.begin(pid, list[0].space, at)
		n.next[pid] = list[1:]
	}
}

// drop takes its space from process pid. Its children may still go by it.
func (n *namer) drop(pid int) {
	if s := n.spaces[pid]; s != nil && n.made[pid] != 0 && n.all[s] {
		n.keepEnded(s)
	}
	delete(n.spaces, pid)
	delete(n.made, pid)
	delete(n.forked, pid)
}

// forget drops what is not needed of a process that has ended.
func (n *namer) forget(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.fresh, pid)
	delete(n.next, pid)
	delete(n.ahead, pid)
	delete(n.final, pid)
	delete(n.stopped, pid)
	delete(n.read, pid)
	delete(n.asked, pid)
}

func (n *namer) close() {
	n.resolver.Close()
	for s := range n.all {
		s.Close()
	}
}

func (n *namer) space(pid int) *symbol.Space {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.spaces[pid]
}

// unnamedCode is what code in anonymous memory is called where nothing has its name.
const unnamedCode = "[anon]"

// askingFor notes that names of the code that process pid makes are asked for again and again, or no more.
func (n *namer) askingFor(pid int, asking bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, pid)
	if asking {
		n.asked[pid] = true
	}
}

// mayBeNamedLater reports whether names of the code that process pid makes are asked for.
func (n *namer) mayBeNamedLater(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[pid]
}

// frames names the functions of a process's return addresses, innermost first; one address gives several
// where functions were inlined. at is when the stack was taken, ns of CLOCK_MONOTONIC: other code may be
// there by now. What is not known yet has no Module. The stacks of a run are named faster.
func (n *namer) frames(run *symbol.Run, pid int, addrs []uint64, at uint64) []*input.Frame {
	n.mu.Lock()
	s := n.spaces[pid]
	if forked := n.forked[pid]; forked != 0 {
		at = min(at, forked)
	}
	asked := n.asked[pid]
	n.mu.Unlock()
	if s == nil {
		return nil // it may be known later
	}
	out := make([]*input.Frame, 0, len(addrs))
	for len(addrs) > 0 {
		native := slices.IndexFunc(addrs, event.IsPython)
		if native < 0 {
			native = len(addrs)
		}
		for _, f := range run.FramesAt(s, addrs[:native], at) {
			if asked && f.Function == unnamedCode {
				f = &symbol.Frame{Function: f.Function, Offset: f.Offset} // it may have a name at the next Report
			}
			out = append(out, (*input.Frame)(f)) // the same fields
		}
		if addrs = addrs[native:]; len(addrs) > 0 {
			out = append(out, n.pythonFrame(addrs[0]))
			addrs = addrs[1:]
		}
	}
	return out
}

// pythonFrame names a Python frame. All stacks that have it share what it returns.
func (n *namer) pythonFrame(frame uint64) *input.Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.pythons[frame]; known != nil {
		return known
	}
	f, ok := n.python(frame)
	if !ok {
		return &input.Frame{Function: python.Unknown, Module: python.Unknown, Language: report.LanguagePython}
	}
	known := &input.Frame{Function: f.Function, File: f.File, Line: f.Line, Module: f.Module, Language: report.LanguagePython}
	n.pythons[frame] = known
	return known
}

// function names the code that a return address returns to, by symbols alone.
func (n *namer) function(pid int, ret uint64) string {
	if event.IsPython(ret) {
		return n.pythonFrame(ret).Function
	}
	s := n.space(pid)
	if s == nil {
		return ""
	}
	return n.resolver.Function(s, ret-1)
}
