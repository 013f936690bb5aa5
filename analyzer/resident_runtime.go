//go:build linux && !viewer

package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/runtimemap"
)

// runtimeParts are the parts of a process's address space that a language's runtime uses, and what they hold. The zero value is of a process
// without one.
type runtimeParts struct {
	ranges []runtimemap.Part // ascending, without overlaps
	next   int               // of ranges, while the spans are made
	found  []input.RuntimePart
}

// piece returns the number in found, counted from 1, of the part that the memory at start belongs to, 0 for none, and up to where that is so.
func (r *runtimeParts) piece(m *mapping, start, end uint64) (uint8, uint64) {
	if m.class != classAnon || m.brk {
		return 0, end
	}
	for r.next < len(r.ranges) && r.ranges[r.next].End <= start {
		r.next++
	}
	if r.next == len(r.ranges) || r.ranges[r.next].Start >= end {
		return 0, end
	}
	p := &r.ranges[r.next]
	if p.Start > start {
		return 0, p.Start
	}
	return r.number(p), min(end, p.End)
}

// number finds the kind of a part among those found, which are few.
func (r *runtimeParts) number(p *runtimemap.Part) uint8 {
	for i := range r.found {
		if r.found[i].Name == p.Kind {
			return uint8(i + 1)
		}
	}
	r.found = append(r.found, input.RuntimePart{Name: p.Kind})
	return uint8(len(r.found))
}

// begin forgets what the last reading found.
func (r *runtimeParts) begin() {
	for i := range r.found {
		r.found[i] = input.RuntimePart{Name: r.found[i].Name}
	}
}

// isRuntime reports whether a runtime has the memory for its own use.
func (s *span) isRuntime() bool { return s.part != 0 && !s.isHeld() }

// measureParts adds up what a mapping that is no heap holds of each part. One that is a single span needs no more than smaps says.
func (l *layout) measureParts(m *mapping, pages *pageStates) {
	if !m.parts {
		return
	}
	if m.spans > 1 {
		l.divideParts(m, pages, m.rss)
		return
	}
	part := &l.runtime.found[l.spans[m.firstSpan].part-1]
	part.Resident += m.rss
	part.Swapped += m.swap
	if m.access {
		part.Mapped += m.end - m.start
	}
}

// divideParts adds up what a mapping holds of each part by the states of its pages, at most so many resident bytes: smaps was read before
// them.
func (l *layout) divideParts(m *mapping, pages *pageStates, most uint64) {
	for i := range m.spans {
		s := &l.spans[m.firstSpan+i]
		if !s.isRuntime() {
			continue
		}
		start := l.starts[m.firstSpan+i]
		resident, swapped := pages.count(m, start, s.end)
		resident = min(resident-min(resident, s.live), most)
		most -= resident
		part := &l.runtime.found[s.part-1]
		part.Resident += resident
		part.Swapped += swapped
		if m.access {
			part.Mapped += s.end - start
		}
	}
}
