package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// An Observer is told of every block's life as the Analyzer counts it, so that sums over lives are those of
// the Report:
//
//   - A block is born once and ends at most once. One that its process never freed does not end as the
//     process exits: it is what a Report calls live, and Lives still yields it.
//   - Of the blocks that were born by ByAlloc and ByRealloc, a site's alloc_count is the number.
//   - Of those that ended by a cause with Cause.Frees, its free_count is the number.
//
// An Observer must not call the Analyzer.
type Observer interface {
	Born(*Life)  // a block lives now
	Ended(*Life) // it lives no more
}

// A Life is what is known of a block. It is lent for the call.
type Life struct {
	// Process is the Process.ID that Reports show it under. Those of a group of children share one, and are
	// told apart by their PID. Addr is unique among the blocks that live in one such process.
	Process int
	PID     uint32

	Addr, Size uint64
	Site       uint32 // Report's Site.ID; also see Analyzer.Site
	Interval   uint32 // of the sample, bytes: see event.Event.Interval; 0: every block was seen

	// Born is when it was allocated, Since from when on this process had it: of a copy that a forked child
	// began with, the fork. Ended is when it ended, 0 while it lives: never more exactly than the Analyzer
	// knows, see Cause. All are ns since Config.Start.
	Born, Since, Ended uint64

	// Cause is that of what is being told; none for Lives.
	Cause Cause
	TID   uint32 // the thread that did it; 0: none did, or another process
	Old   uint64 // of one born ByRealloc: the address before, 0 if the call acted as malloc

	Temporary bool   // as it ends: its thread had allocated nothing since
	Leaked    string // the kind of the last verdict on it (definite, indirect, possible), if that still stands; "": none
}

// A Cause is why a block's life began or ended.
type Cause uint8

const (
	ByAlloc      Cause = 1 + iota // born: an allocation
	ByRealloc                     // born and ended: a realloc
	ByFork                        // born: it is a child's copy
	ByFree                        // ended: a free
	ByPool                        // ended: its pool ended
	ByOverwrite                   // ended: another was allocated at its address. It was freed unseen, at the latest then
	ByRepair                      // ended: it was freed unseen, at the earliest then (input.Repair)
	ByPause                       // ended: it is not known any more (input.Pause). The time is that of the last events before
	ByExec                        // ended: its process's program was replaced
	ByExit                        // ended: a child's copy, or a block of a process that is listed in a group
	ByCheckpoint                  // born: it lived at the Checkpoint that the stream begins with (input.Held)
)

var causeNames = [...]string{"", "alloc", "realloc", "fork", "free", "pool", "overwrite", "repair", "pause", "exec", "exit", "checkpoint"}

// String is one word, such as realloc.
func (c Cause) String() string { return causeNames[c] }

// Frees says that the block's end counts as a free.
func (c Cause) Frees() bool {
	return c == ByFree || c == ByRealloc || c == ByPool || c == ByOverwrite || c == ByRepair
}

// CountUnit are the fractions in which Others counts blocks.
const CountUnit = countUnit

// Others is what a block of a sample stands for beyond itself; zero where every block was seen.
type Others struct {
	Count, Bytes       uint64 // blocks in units of 1/CountUnit
	VarCount, VarBytes float64
}

// Others is exact to the unit: sums of it are those of Reports.
func (l *Life) Others() Others {
	x := excessOf(l.Size, l.Interval)
	return Others{Count: x.count, Bytes: x.bytes, VarCount: x.varCount, VarBytes: x.varBytes}
}

// life begins what an Observer is told of a block of a process.
func (a *Analyzer) life(p *process, b block) *Life {
	l := &a.told
	*l = Life{Process: p.id, PID: p.info.PID, Addr: b.addr, Size: b.size, Site: uint32(b.site), Interval: a.intervals.bytes[b.interval], Born: b.time, Since: b.time}
	if p.group != nil {
		l.Process = p.group.listed.id
	}
	if b.time < p.forkedAt {
		l.Since = p.forkedAt
	}
	return l
}

// tellBorn tells of a block that an Alloc or a Realloc made.
func (a *Analyzer) tellBorn(p *process, b block, e *event.Event) {
	l := a.life(p, b)
	l.Cause, l.TID = ByAlloc, e.TID
	if e.Kind == event.Realloc {
		l.Cause, l.Old = ByRealloc, e.Old
	}
	a.config.Observer.Born(l)
}

// tellFreed tells of a block that a thread has ended.
func (a *Analyzer) tellFreed(p *process, b block, e *event.Event, temporary bool) {
	l := a.life(p, b)
	l.Ended, l.TID, l.Temporary = a.since(e.Time), e.TID, temporary
	switch e.Kind {
	case event.Free:
		l.Cause = ByFree
	case event.Realloc:
		l.Cause = ByRealloc
	default:
		l.Cause = ByPool
	}
	a.config.Observer.Ended(l)
}

// tellEnded tells of a block that no thread has ended, if anybody is to be told.
func (a *Analyzer) tellEnded(p *process, b block, by Cause, at uint64) {
	if a.config.Observer == nil {
		return
	}
	l := a.life(p, b)
	l.Cause, l.Ended = by, at
	if by == ByExit || by == ByExec && p.checked {
		l.Leaked = p.verdictOn(b)
	}
	a.config.Observer.Ended(l)
}

// tellGone tells that all blocks of a process have ended at once.
func (a *Analyzer) tellGone(p *process, by Cause, at uint64) {
	if a.config.Observer == nil {
		return
	}
	p.heap.all(func(b block) bool {
		a.tellEnded(p, b, by, at)
		return true
	})
}

// tellCopy tells of a block that a child began with.
func (a *Analyzer) tellCopy(p *process, b block) {
	if a.config.Observer == nil {
		return
	}
	l := a.life(p, b)
	l.Cause, l.Since = ByFork, p.forkedAt
	a.config.Observer.Born(l)
}

// verdictOn is the kind of the verdict that stands on a live block, "" if there is none. A block that came to
// the place of one that was judged is younger than all that were.
func (p *process) verdictOn(b block) string {
	i, ok := p.leaked.find(b.addr)
	if !ok || b.time > p.verdicts[i].NewestNS {
		return ""
	}
	return p.verdicts[i].Kind
}

// LeakChecks is how many leak checks of processes there were: without any, no Life is known to be leaked or not.
func (a *Analyzer) LeakChecks() int { return a.leakChecks }

// Lives yields the blocks that live, in no particular order. Nothing must be given to the Analyzer meanwhile.
func (a *Analyzer) Lives(yield func(*Life) bool) {
	for p := range a.heaps {
		more := true
		p.heap.all(func(b block) bool {
			l := a.life(p, b)
			l.Leaked = p.verdictOn(b)
			more = yield(l)
			return more
		})
		if !more {
			return
		}
	}
}

// A SiteName says what a site is, as far as it has been told.
type SiteName struct {
	Process       int         // Process.ID
	Info          ProcessInfo // of the process, by its last description
	Stack         event.StackID
	Function      string          // what a Report calls it
	FunctionFrame int             // its index in Frames
	Frames        []*report.Frame // innermost first, not to be changed; empty where no stack was taken or it was lost
	Truncated     bool
	FramePointers bool // a frame was found by frame pointers alone
}

// Site tells of a site by its number; ok is false where there is none. Stacks get their names late (input.Names):
// ask at the stream's end.
func (a *Analyzer) Site(number uint32) (name SiteName, ok bool) {
	if number >= a.sites.used {
		return SiteName{}, false
	}
	s := a.sites.at(siteID(number))
	n := a.nameStack(s.image, s.stack, s.other)
	out := SiteName{Process: s.proc.id, Info: s.proc.info, Stack: s.stack, Function: n.function, Frames: n.frames, Truncated: n.truncated, FramePointers: n.guessed}
	if len(n.frames) > 0 {
		out.Function, out.FunctionFrame = a.functionOf(n.frames)
	}
	return out, true
}
