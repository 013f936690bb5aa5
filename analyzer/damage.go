package analyzer

import (
	"fmt"
	"maps"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A damage is what lost events may have done to what is known of a process: a
// block whose free was lost still shows as live.
type damage struct {
	spans    []report.LossSpan // ascending
	lost     uint64            // events
	verified uint64            // ns since Config.Start: blocks from before have been looked at since the last loss then
	unsure   map[uint64]bool   // of those: where it could not be told
	repaired report.Repaired
}

const (
	maxLossSpans = 64
	lossGap      = 1_000_000_000 // ns between losses that make two spans
)

// Knows reports whether a ProcessLoss would be taken. If not, the process's fork may be
// among the events still to come. The caller then has to give the ProcessLoss again later.
func (a *Analyzer) Knows(pid uint32, last uint64) bool {
	p := a.byPID[pid]
	return p != nil && (!p.exited || a.since(last) <= p.ended) // else another one has its PID now
}

// addProcessLoss takes a ProcessLoss.
func (a *Analyzer) addProcessLoss(l input.ProcessLoss) {
	if l.Events != 0 && a.Knows(l.PID, l.Last) {
		a.byPID[l.PID].addLoss(report.LossSpan{FromNS: a.since(l.First), ToNS: a.since(max(l.First, l.Last)), Events: l.Events})
	}
}

func (p *process) addLoss(fresh report.LossSpan) {
	if p.damage == nil {
		p.damage = &damage{}
	}
	d := p.damage
	d.lost += fresh.Events
	n := len(d.spans)
	switch {
	case n > 0 && (fresh.FromNS < d.spans[n-1].ToNS+lossGap || n == maxLossSpans):
		d.spans[n-1].ToNS = max(fresh.ToNS, d.spans[n-1].ToNS)
		d.spans[n-1].Events += fresh.Events
	default:
		d.spans = append(d.spans, fresh)
	}
}

// addLosses adds the losses of an entry that turned out to be the same process.
func (p *process) addLosses(d *damage) {
	if d == nil {
		return
	}
	for _, s := range d.spans {
		p.addLoss(s)
	}
}

// after is the damage of a program that parts at a time (ns since Config.Start) from
// the memory of the damaged process: some of what was lost later is its own.
func (d *damage) after(at uint64) *damage {
	if d == nil || d.last() <= at {
		return nil
	}
	return d.inherited()
}

// inherited is that of a forked child, whose blocks are copies of its parent's.
func (d *damage) inherited() *damage {
	if d == nil {
		return nil
	}
	out := &damage{verified: d.verified, unsure: maps.Clone(d.unsure)}
	for _, s := range d.spans {
		out.spans = append(out.spans, report.LossSpan{FromNS: s.FromNS, ToNS: s.ToNS})
	}
	return out
}

// last is when the last event was lost.
func (d *damage) last() uint64 { return d.spans[len(d.spans)-1].ToNS }

// doubts reports whether the free of a live block may have been lost.
func (d *damage) doubts(b block) bool {
	if d == nil || len(d.spans) == 0 || b.time > d.last() {
		return false
	}
	return b.time > d.verified || d.last() > d.verified || d.unsure[b.addr]
}

// freedAt is when a block whose free was lost was freed, at the earliest.
func (d *damage) freedAt(b block) uint64 {
	for _, s := range d.spans {
		if s.ToNS >= b.time {
			return max(s.FromNS, b.time)
		}
	}
	return b.time
}

// downgrade has a verdict on blocks whose frees may have been lost say so: what
// nothing points to may just have been freed.
func (d *damage) downgrade(l *report.Leak) {
	l.Kind, l.Doubtful = reach.Possible.String(), true
	l.Confidence = min(l.Confidence, doubtfulConfidence)
	l.Why = fmt.Sprintf("it may have been freed: %d events of the process were lost while it lived, and the allocator's records do not tell; %s", d.lost, l.Why)
}

// unattributedLosses are the lost events whose process is not known.
func (a *Analyzer) unattributedLosses() uint64 {
	var known uint64
	for _, p := range a.processes {
		if p.damage != nil {
			known += p.damage.lost
		}
	}
	return a.events.Lost - min(a.events.Lost, known)
}

// doubtfulConfidence is the confidence in such a verdict.
const doubtfulConfidence = 0.5

// lossReport is what a Report says of it; nil where nothing was lost.
func (p *process) lossReport() *report.ProcessLoss {
	d := p.damage
	if d == nil {
		return nil
	}
	out := &report.ProcessLoss{Events: d.lost, Spans: append([]report.LossSpan{}, d.spans...), Repaired: d.repaired}
	p.heap.all(func(b block) bool {
		if d.doubts(b) {
			out.DoubtfulCount++
			out.DoubtfulBytes += b.size
		}
		return true
	})
	return out
}

// HasLost reports whether events of a process, or of one that it is a copy of, were lost.
func (a *Analyzer) HasLost(pid uint32) bool {
	p := a.byPID[pid]
	return p != nil && p.damage != nil
}

// repair takes a Repair: the blocks that were freed unseen count as freed.
func (a *Analyzer) repair(in input.Repair) {
	p := a.byPID[in.PID]
	if p == nil || p.exited || p.damage == nil {
		return
	}
	d := p.damage
	unsure := make(map[uint64]bool)
	for _, was := range in.Unsure {
		if _, ok := a.stillThere(p, was); ok {
			unsure[was.Addr] = true
		}
	}
	for _, was := range in.Freed {
		b, ok := a.stillThere(p, was)
		if !ok {
			continue
		}
		p.heap.remove(b.addr, p.heap.hash(b.addr))
		if a.config.Sample != nil {
			a.config.Sample.Release(b.addr)
		}
		a.close(p, b, d.freedAt(b))
		a.tellEnded(p, b, ByRepair, d.freedAt(b))
		a.events.Repaired++
		d.repaired.Count++
		d.repaired.Bytes += b.size
	}
	d.verified, d.unsure = a.since(in.Began), unsure
}

// stillThere returns a block that a question was about if it still lives.
func (a *Analyzer) stillThere(p *process, was input.Block) (block, bool) {
	b, ok := p.heap.get(was.Addr, p.heap.hash(was.Addr))
	return b, ok && b.size == was.Size && b.time == a.since(was.AllocatedAt)
}

// Repaired are the blocks of a process that repairs have found freed so far.
func (a *Analyzer) Repaired(pid uint32) report.Repaired {
	if p := a.byPID[pid]; p != nil && p.damage != nil {
		return p.damage.repaired
	}
	return report.Repaired{}
}
