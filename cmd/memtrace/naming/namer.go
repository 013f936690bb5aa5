//go:build linux && !viewer

package naming

import (
	"slices"
	"sync"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/python"
)

// Namer names the code addresses of the traced processes. Its methods may be called from any goroutine.
type Namer struct {
	resolver *symbol.Resolver
	python   func(frame uint64) (python.Name, bool) // what a Python frame is called

	looking [16]sync.Mutex // by process: its mappings are read once at a time

	mu        sync.Mutex
	pythons   map[uint64]*input.Frame // those that were named: as many as python has names
	processes map[int]*process
	all       map[*symbol.Space]bool // those to be closed
	ended     int                    // how many of them are of processes that have ended
}

// New returns a Namer without processes. python names a Python frame; false: it is not known.
func New(o symbol.Options, python func(frame uint64) (python.Name, bool)) *Namer {
	return &Namer{
		python: python, pythons: make(map[uint64]*input.Frame), resolver: symbol.NewResolver(o),
		processes: make(map[int]*process), all: make(map[*symbol.Space]bool),
	}
}

// Close lets go of all files that are held open.
func (n *Namer) Close() {
	n.resolver.Close()
	for s := range n.all {
		s.Close()
	}
}

// Interrupt is to be called at a signal; see symbol.Resolver.
func (n *Namer) Interrupt() { n.resolver.Interrupt() }

// Hurry has what is not named by now stay without a name, so that what waits for names goes on.
func (n *Namer) Hurry() { n.resolver.Hurry() }

// Run returns what names many stacks faster, as they share frames. It is for one goroutine.
func (n *Namer) Run() *symbol.Run { return n.resolver.Run() }

// Warnings returns what kept code from having names.
func (n *Namer) Warnings() []string { return n.resolver.Warnings() }

// UnnamedCode is what code in anonymous memory is called where nothing has its name.
const UnnamedCode = "[anon]"

// AskFor notes that names of the code that process pid makes are asked for again and again, or no more.
func (n *Namer) AskFor(pid int, asking bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.processes[pid]; p != nil || asking {
		n.of(pid).asked = asking
	}
}

// MayNameLater reports whether names of the code that process pid makes are asked for.
func (n *Namer) MayNameLater(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.processes[pid]
	return p != nil && p.asked
}

// Knows reports whether anything is known of what process pid has mapped.
func (n *Namer) Knows(pid int) bool { return n.space(pid) != nil }

func (n *Namer) space(pid int) *symbol.Space {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.processes[pid]; p != nil {
		return p.space
	}
	return nil
}

// Frames names the functions of a process's return addresses, innermost first; one address gives several
// where functions were inlined. at is when the stack was taken, ns of CLOCK_MONOTONIC: other code may be
// there by now. What is not known yet has no Module; nil: nothing of the process is. The stacks of a run are named faster.
func (n *Namer) Frames(run *symbol.Run, pid int, addrs []uint64, at uint64) []*input.Frame {
	s, at, asked := n.inForce(pid, at)
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
			if asked && f.Function == UnnamedCode {
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

// inForce returns the space that names what process pid did at a time, the time to ask it for, and whether names of the code that
// the process makes are asked for.
func (n *Namer) inForce(pid int, at uint64) (s *symbol.Space, asOf uint64, asked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.processes[pid]
	if p == nil {
		return nil, at, false
	}
	if p.forked != 0 {
		at = min(at, p.forked)
	}
	return p.space, at, p.asked
}

// pythonFrame names a Python frame. All stacks that have it share what it returns.
func (n *Namer) pythonFrame(frame uint64) *input.Frame {
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

// Function names the code that a return address returns to, by symbols alone.
func (n *Namer) Function(pid int, ret uint64) string {
	if event.IsPython(ret) {
		return n.pythonFrame(ret).Function
	}
	s := n.space(pid)
	if s == nil {
		return ""
	}
	return n.resolver.Function(s, ret-1)
}
