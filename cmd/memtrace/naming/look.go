//go:build linux && !viewer

package naming

import "github.com/memtrace/memtrace/analyzer/symbol"

// Look reads what process pid has mapped by now, ns of CLOCK_MONOTONIC, and returns its
// space: that of the last program that it has executed. Of a process that has just
// ended it keeps what there is. The space is the Namer's; it is nil where the process has ended.
// root is where procfs is mounted.
func (n *Namer) Look(root string, pid int, at uint64, alive func() bool) (*symbol.Space, error) {
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
func (n *Namer) newest(pid int) (own, parent *symbol.Space, forked uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.processes[pid]
	switch {
	case p == nil:
		return nil, nil, 0
	case p.ahead > 0:
		return p.coming(), nil, 0
	case p.forked != 0:
		return nil, p.space, p.forked
	}
	return p.space, nil, 0
}

// set makes s the address space of process pid from now on, read at a time, ns of CLOCK_MONOTONIC.
// Where it is that of a program whose exec is still to come among the events,
// what came before keeps its names. It is refused once Last has seen all that
// there will be: files that are opened while a process ends cannot all be.
func (n *Namer) set(pid int, s *symbol.Space, at uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.of(pid)
	if p.final {
		return false
	}
	if p.ahead > 0 {
		p.await(s)
		return true
	}
	p.begin(s, at)
	p.fresh = false
	return true
}

// Last gives a process that ends now, and still has its memory, the names of
// the program that it executed, if nobody had the time to look for them
// before. at is the time, ns of CLOCK_MONOTONIC; root is where procfs is mounted.
func (n *Namer) Last(root string, pid int, at uint64) {
	if !n.isFresh(pid) {
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
	p := n.of(pid)
	p.final = true
	if p.ahead > 0 {
		p.await(s)
		return
	}
	p.begin(s, at)
}

func (n *Namer) isFresh(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.processes[pid]
	return p != nil && p.fresh
}
