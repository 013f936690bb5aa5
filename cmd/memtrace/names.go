package main

import (
	"sync"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/symbol"
)

// namer names the code addresses of the traced processes.
type namer struct {
	resolver *symbol.Resolver

	mu     sync.Mutex
	spaces map[int]*symbol.Space
	own    []*symbol.Space
	fresh  map[int]bool          // processes that execute a program whose space is not known yet
	next   map[int]*symbol.Space // of programs whose exec is still to come among the events
	ahead  map[int]int           // how many execs of each process are still to come there
}

func newNamer(o symbol.Options) *namer {
	return &namer{resolver: symbol.NewResolver(o), spaces: make(map[int]*symbol.Space), fresh: make(map[int]bool), next: make(map[int]*symbol.Space), ahead: make(map[int]int)}
}

// set makes s the address space of process pid from now on.
// Where it is that of a program whose exec is still to come among the events,
// what came before keeps its names.
func (n *namer) set(pid int, s *symbol.Space) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ahead[pid] > 0 {
		n.next[pid] = s
		return
	}
	n.spaces[pid] = s
	delete(n.fresh, pid)
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
// are more. It may be called from any goroutine.
func (n *namer) replaced(pid int, first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fresh[pid] = true
	if first {
		n.ahead[pid]++
	}
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
	if n.ahead[pid] > 0 {
		n.next[pid] = s
	}
	if n.ahead[pid] == 0 || n.spaces[pid] == nil {
		n.spaces[pid] = s
	}
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
// those of the one before are not needed any more.
func (n *namer) executed(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ahead[pid] > 0 {
		n.ahead[pid]--
	}
	if s := n.next[pid]; s != nil {
		n.spaces[pid] = s
		delete(n.next, pid)
		return
	}
	delete(n.spaces, pid)
}

// forget drops what is not needed of a process that has ended.
func (n *namer) forget(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.fresh, pid)
	delete(n.next, pid)
	delete(n.ahead, pid)
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
func (n *namer) Frames(pid int, addrs []uint64) []analyzer.Frame {
	s := n.space(pid)
	if s == nil {
		return nil // it may be known later
	}
	found := n.resolver.Frames(s, addrs, true)
	out := make([]analyzer.Frame, len(found))
	for i, f := range found {
		out[i] = analyzer.Frame{
			Function: f.Function, Mangled: f.Mangled, File: f.File, Line: f.Line, Module: f.Module,
			BuildID: f.BuildID, Offset: f.Offset, Inlined: f.Inlined,
		}
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
