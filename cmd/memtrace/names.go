package main

import (
	"sync"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/symbol"
)

// namer names the code addresses of the traced processes.
type namer struct {
	resolver *symbol.Resolver

	mu      sync.Mutex
	spaces  map[int]*symbol.Space
	own     []*symbol.Space
	fresh   map[int]bool       // processes that execute a program whose space is not known yet
	next    map[int][]upcoming // in order
	ahead   map[int]int        // how many execs of each process are still to come among the events
	final   map[int]bool       // processes that have ended, and have their last names
	stopped map[int]uint64     // when each process last stood still at an exec
	read    map[int]uint64     // when the last exec was that has come among the events
}

// upcoming is the space of a program whose exec is still to come among the
// events: it is the execs-th of those that are.
type upcoming struct {
	space *symbol.Space
	execs int
}

func newNamer(o symbol.Options) *namer {
	return &namer{
		resolver: symbol.NewResolver(o), spaces: make(map[int]*symbol.Space), fresh: make(map[int]bool),
		next: make(map[int][]upcoming), ahead: make(map[int]int), final: make(map[int]bool),
		stopped: make(map[int]uint64), read: make(map[int]uint64),
	}
}

// set makes s the address space of process pid from now on.
// Where it is that of a program whose exec is still to come among the events,
// what came before keeps its names. It is refused once last has seen all that
// there will be: files that are opened while a process ends cannot all be.
func (n *namer) set(pid int, s *symbol.Space) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.final[pid] {
		return false
	}
	if n.ahead[pid] > 0 {
		n.await(pid, s)
		return true
	}
	n.spaces[pid] = s
	delete(n.fresh, pid)
	return true
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

// like has a new process's code named as that of another, with the same mappings.
func (n *namer) like(pid, parent int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.spaces[parent]; s != nil {
		n.spaces[pid] = s
	}
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
// before. It may be called from any goroutine. The space is the namer's.
func (n *namer) last(root string, pid int) {
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
	if !n.owns(s) {
		return
	}
	n.final[pid] = true
	if n.ahead[pid] > 0 {
		n.await(pid, s)
		return
	}
	n.spaces[pid] = s
}

// maxOwned is how many spaces of ended processes are kept: more than there are
// processes whose sites are listed one by one.
const maxOwned = 2048

// keep takes over the space of process pid, which has ended.
func (n *namer) keep(pid int, s *symbol.Space) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.owns(s) && n.spaces[pid] == s {
		delete(n.spaces, pid)
	}
}

func (n *namer) owns(s *symbol.Space) bool {
	if len(n.own) >= maxOwned {
		s.Close()
		return false
	}
	n.own = append(n.own, s)
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
	delete(n.spaces, pid)
	list := n.next[pid]
	for i := range list {
		list[i].execs--
	}
	if len(list) > 0 && list[0].execs <= 0 {
		n.spaces[pid], n.next[pid] = list[0].space, list[1:]
	}
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
}

func (n *namer) close() {
	n.resolver.Close()
	for _, s := range n.own {
		s.Close()
	}
}

func (n *namer) space(pid int) *symbol.Space {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.spaces[pid]
}

// Frames implements analyzer.Symbolizer.
func (n *namer) Frames(pid int, addrs []uint64) []*analyzer.Frame {
	s := n.space(pid)
	if s == nil {
		return nil // it may be known later
	}
	found := n.resolver.Frames(s, addrs, true)
	out := make([]*analyzer.Frame, len(found))
	for i, f := range found {
		out[i] = (*analyzer.Frame)(f) // the same fields
	}
	return out
}

// function names the code that a return address returns to, by symbols alone.
func (n *namer) function(pid int, ret uint64) string {
	s := n.space(pid)
	if s == nil {
		return ""
	}
	return n.resolver.Function(s, ret-1)
}
