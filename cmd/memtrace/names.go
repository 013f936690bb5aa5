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
}

func newNamer(o symbol.Options) *namer {
	return &namer{resolver: symbol.NewResolver(o), spaces: make(map[int]*symbol.Space)}
}

// set makes s the address space of process pid from now on.
func (n *namer) set(pid int, s *symbol.Space) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spaces[pid] = s
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
		return analyzer.Unnamed(addrs)
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
