//go:build linux && !viewer

package naming

import "github.com/memtrace/memtrace/analyzer/symbol"

// of returns the record of process pid. n.mu is held.
func (n *Namer) of(pid int) *process {
	p := n.processes[pid]
	if p == nil {
		p = &process{}
		n.processes[pid] = p
	}
	return p
}

// Forked has a new process's code named as that of its parent was when it forked, ns of
// CLOCK_MONOTONIC. Where it has been looked at since, that holds for what came before:
// it may have executed a program meanwhile.
func (n *Namer) Forked(pid, parent int, at uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var s *symbol.Space
	asOf := at
	if p := n.processes[parent]; p != nil {
		s, asOf = p.atFork(at)
	}
	child := n.of(pid)
	if child.made <= at { // else it was looked at since
		child.goesBy(s, asOf)
	} else if s != nil {
		child.space.Inherit(s, asOf, child.made)
	}
}

// Replaced notes, while process pid stands still at an exec, that its names are
// to be others; or, where it is not the first time for this exec, that there
// are more. at is the time, ns of CLOCK_MONOTONIC. It may come after the exec's event has been read.
func (n *Namer) Replaced(pid int, first bool, at uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.of(pid)
	p.fresh = true
	if !first {
		return
	}
	if p.read <= p.stopped { // what was read last is an exec before
		p.ahead++
	}
	p.stopped = at
}

// Executed changes the names of process pid to those of its new program, once
// those of the one before are not needed any more. at is when the exec was.
func (n *Namer) Executed(pid int, at uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.of(pid)
	if p.made <= at { // else it was read since, and is of the new program
		n.drop(p)
	}
	if s := p.reachExec(at); s != nil {
		n.drop(p)
		p.begin(s, at)
	}
}

// drop takes its space from a process. Its children may still go by it.
func (n *Namer) drop(p *process) {
	if p.space != nil && p.made != 0 && n.all[p.space] {
		n.keepEnded(p.space)
	}
	p.goesBy(nil, 0)
}

// maxEnded is how many spaces of ended processes are kept: more than there are
// processes whose sites are listed one by one.
const maxEnded = 2048

// Keep drops the space of process pid, which has ended, if there are too many.
func (n *Namer) Keep(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.processes[pid]; p != nil && p.space != nil && p.made != 0 && !p.final && !n.keepEnded(p.space) {
		p.goesBy(nil, 0)
	}
}

// keepEnded notes that s is of a program that has ended. It reports whether s is kept.
func (n *Namer) keepEnded(s *symbol.Space) bool {
	if n.ended >= maxEnded {
		delete(n.all, s)
		s.Close()
		return false
	}
	n.ended++
	return true
}

// Forget drops what is not needed of a process that has ended: all but what names its events.
func (n *Namer) Forget(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.processes[pid]
	if p == nil {
		return
	}
	if p.space == nil {
		delete(n.processes, pid)
		return
	}
	p.forgetExecs()
}
