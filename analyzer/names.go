package analyzer

import (
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// An UnnamedStack is a stack whose code has no names that hold for good: Names are the answer.
type UnnamedStack struct {
	Stack uint64 // Names.Stack
	ID    event.StackID
	Last  bool // Names.Last
	PID   int
	Addrs []uint64 // return addresses, innermost first; not to be changed
	At    uint64   // ns, CLOCK_MONOTONIC: when it was taken. Other code may be there by now
}

// Unnamed lists the stacks that the Report of the last Instant is going to show without names, and those by
// which it finds wrappers, rows that print alike and groups: few of these before the last Report.
func (a *Analyzer) Unnamed(opt ReportOptions) []UnnamedStack {
	q := stackQuestions{analyzer: a, asked: make(map[uint64]bool)}
	d := a.draftOf(opt)
	r := d.report
	a.askForSites(&q, d)
	for i := range r.Regions {
		if s := &a.regions.all[r.Regions[i].ID]; !s.other {
			q.ask(r.Regions[i].PID, s.image, s.stack)
		}
	}
	a.askForFirstTouched(&q, r.Touched)
	for _, p := range a.processes {
		if p.pools == nil {
			continue
		}
		for _, id := range p.pools.byAddr {
			if own := &p.pools.all[id]; p.pools.nameOf(own) == "" {
				q.ask(int(p.info.PID), p.image, own.made)
			}
		}
	}
	a.askForWrappers(&q, opt.Final)
	return q.out
}

// UnnamedOf lists the stacks of a process's sites so far, those through an address of which through is true;
// nil: all, and for the last time. It is to be asked before the names are forgotten, as those of the present
// program are at its Exec event.
func (a *Analyzer) UnnamedOf(pid uint32, through func(addr uint64) bool) []UnnamedStack {
	p := a.byPID[pid]
	if p == nil {
		return nil
	}
	q := stackQuestions{analyzer: a, asked: make(map[uint64]bool)}
	name := func(stack event.StackID) {
		ref, ok := p.image.stack(stack)
		if ok && (through == nil || slices.ContainsFunc(a.stacks.frames(ref), through)) {
			_, own := p.image.stacks[stack] // else it is of another, which may go on
			q.last = through == nil && own && p.info.PID == pid
			q.ask(int(pid), p.image, stack)
		}
	}
	for stack := range p.image.sites { // others may be of the image to come
		name(stack)
	}
	for stack := range p.image.regions {
		name(stack)
	}
	if p.spans != nil {
		for stack := range p.spans.sites {
			name(stack)
		}
	}
	return q.out
}

// stackQuestions collects stacks without names, each once.
type stackQuestions struct {
	analyzer *Analyzer
	last     bool
	asked    map[uint64]bool
	out      []UnnamedStack
}

func (q *stackQuestions) ask(pid int, im *image, id event.StackID) {
	ref, ok := im.stack(id)
	if !ok || id == 0 || ref.frames == 0 || q.asked[ref.number()] {
		return
	}
	if _, named := q.analyzer.frames[ref.number()]; named {
		return
	}
	q.asked[ref.number()] = true
	q.out = append(q.out, UnnamedStack{ref.number(), id, q.last, pid, q.analyzer.stacks.frames(ref), ref.at})
}

// number tells a stack that has frames from all others.
func (r stackRef) number() uint64 { return uint64(r.chunk)<<32 | uint64(r.first) }

// takeNames takes Names. Those of a stack that had no room are of no use.
func (a *Analyzer) takeNames(v input.Names) {
	if _, named := a.frames[v.Stack]; named || len(v.Frames) == 0 || !a.stacks.has(v.Stack) {
		return
	}
	frames := make([]*report.Frame, len(v.Frames))
	for i, f := range v.Frames {
		frames[i] = (*report.Frame)(f) // the same fields
	}
	if !a.config.Native {
		frames = report.FoldInterpreter(frames)
	}
	if !a.tooManyNames(v.Last, frames) && (v.Last || !slices.ContainsFunc(frames, isNowhere)) {
		a.frames[v.Stack] = frames
	} else {
		a.passing[v.Stack] = frames
	}
	a.findWrappers(false)
}

// namesOf returns the frames of a stack: their addresses where it has no names.
func (a *Analyzer) namesOf(ref stackRef) []*report.Frame {
	if frames, ok := a.knownNames(ref); ok {
		return frames
	}
	return bareFrames(a.stacks.frames(ref))
}

// knownNames returns the frames of a stack that has names.
func (a *Analyzer) knownNames(ref stackRef) ([]*report.Frame, bool) {
	if ref.frames != 0 {
		for _, known := range []map[uint64][]*report.Frame{a.frames, a.passing} {
			if frames, ok := known[ref.number()]; ok {
				return frames, true
			}
		}
	}
	return nil, false
}

// tooManyNames reports whether names are not to be kept until the next Report: those
// of stacks that can be named again then, once they take what a user's stacks may.
func (a *Analyzer) tooManyNames(last bool, frames []*report.Frame) bool {
	const kept, each = 128, 8
	a.named += kept + each*uint64(len(frames))
	return !last && a.detail.limit != 0 && a.named > a.detail.limit/4
}

// isNowhere reports whether it is not known what the code lies in.
func isNowhere(f *report.Frame) bool { return f.Module == "" }

func bareFrames(addrs []uint64) []*report.Frame {
	out := make([]*report.Frame, 0, len(addrs))
	for _, addr := range addrs {
		out = append(out, &report.Frame{Function: fmt.Sprintf("%#x", addr)})
	}
	return out
}

// Unnamed returns one Frame an address, named by the address alone.
func Unnamed(addrs []uint64) []*report.Frame { return bareFrames(addrs) }
