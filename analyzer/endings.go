package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A stackEnding says how a stack ends, and whether it is certain.
type stackEnding struct {
	bottom    bool // in the outermost frame of its thread
	truncated bool // deeper than the limit, or broken off
	deeper    bool // of those: at the limit
	guessed   bool // some frame was left by its frame pointer
}

func endingOf(s event.Stack) stackEnding {
	return stackEnding{bottom: s.Bottom, truncated: s.Truncated, deeper: s.Deeper, guessed: s.FPGuess}
}

// stackCounts sums up how the stacks of all allocations end; at the end of a trace, lost is how many have lost theirs.
func (a *Analyzer) stackCounts(final bool) (out report.Stacks, lost uint64) {
	for _, s := range a.sites.all {
		*countOf(&out, s, a.config.Tracer.Unwind) += s.allocs()
		if final && s.lostStack() { // until then they may come
			lost += s.allocs()
		}
	}
	return out, lost
}

// lostStack reports whether a site's call stack was taken, and its frames have not come.
func (s *site) lostStack() bool {
	if s.other || s.stack == 0 {
		return false
	}
	_, ok := s.image.stack(s.stack)
	return !ok
}

// countOf returns the count that a site's allocations belong to.
func countOf(c *report.Stacks, s *site, unwinder string) *uint64 {
	ref, ok := s.image.stack(s.stack)
	switch {
	case s.other || s.stack == 0 || !ok:
		return &c.None
	case ref.ending.guessed && ref.ending.bottom:
		return &c.FPBottom
	case ref.ending.guessed || unwinder == "fp": // whose chains end anywhere
		return &c.FramePointers
	case ref.ending.deeper:
		return &c.Deeper
	case ref.ending.bottom:
		return &c.Bottom
	}
	return &c.Broken
}
