//go:build linux && !viewer

package naming

import "github.com/memtrace/memtrace/analyzer/symbol"

// process is what is known of the mappings of one process, or of the last one that had its PID.
type process struct {
	space  *symbol.Space // what names its code as far as its events have been read; nil: nothing does yet
	made   uint64        // when that was read, ns, if it is the process's own; 0: it is its parent's
	forked uint64        // when it was forked, if it goes by its parent's; 0: it doesn't

	fresh    bool       // it executes a program whose space is not known yet
	ahead    int        // how many of its execs are still to come among the events
	upcoming []upcoming // the spaces of their programs, in order
	stopped  uint64     // when it last stood still at an exec
	read     uint64     // when the last exec was that has come among the events
	final    bool       // it has ended, and has its last names

	asked bool // its JIT compiler is asked for names: code without one may have it later
}

// upcoming is the space of a program whose exec is still to come among the
// events: it is the execs-th of those that are.
type upcoming struct {
	space *symbol.Space
	execs int
}

// goesBy makes the process one that its parent's space names up to the time when it was forked.
func (p *process) goesBy(parent *symbol.Space, forked uint64) {
	p.space, p.made, p.forked = parent, 0, forked
	if parent == nil {
		p.forked = 0
	}
}

// begin gives the process a space of its own, read at a time. What it ran before, as a child that has executed
// a program by now, keeps its parent's names: its fork may have been read while s was.
func (p *process) begin(s *symbol.Space, at uint64) {
	if p.forked != 0 {
		s.Inherit(p.space, p.forked, at)
	}
	p.space, p.made, p.forked = s, at, 0
}

// coming returns the space of the last program that the process has executed, where
// its exec is still to come among the events; nil: it is not known yet.
func (p *process) coming() *symbol.Space {
	if last := len(p.upcoming) - 1; last >= 0 && p.upcoming[last].execs == p.ahead {
		return p.upcoming[last].space
	}
	return nil
}

// await keeps the space of the last program that the process has executed until
// the events get to its exec.
func (p *process) await(s *symbol.Space) {
	u := upcoming{s, p.ahead}
	if p.coming() != nil {
		p.upcoming[len(p.upcoming)-1] = u
		return
	}
	p.upcoming = append(p.upcoming, u)
}

// atFork returns the space that names what a child ran which the process forked at a time, and the time to ask it for.
func (p *process) atFork(at uint64) (s *symbol.Space, asOf uint64) {
	switch {
	case p.ahead > 0 && p.stopped < at:
		return p.coming(), at // the events are not there yet
	case p.forked != 0:
		return p.space, p.forked
	}
	return p.space, at
}

// reachExec takes an exec for read from the events, and returns the space of the program that it began, where that is
// known.
func (p *process) reachExec(at uint64) *symbol.Space {
	p.read = at
	if p.ahead > 0 {
		p.ahead--
	}
	for i := range p.upcoming {
		p.upcoming[i].execs--
	}
	if len(p.upcoming) == 0 || p.upcoming[0].execs > 0 {
		return nil
	}
	s := p.upcoming[0].space
	p.upcoming = p.upcoming[1:]
	return s
}

// forgetExecs drops all but what names the events of a process that has ended.
func (p *process) forgetExecs() {
	*p = process{space: p.space, made: p.made, forked: p.forked}
}
