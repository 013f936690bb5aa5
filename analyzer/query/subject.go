package query

import (
	"math"

	"github.com/memtrace/memtrace/analyzer"
)

// A subject is a block that is judged.
type subject struct {
	life  *analyzer.Life
	birth birth
	live  bool   // at the end of the span
	now   uint64 // ns since the trace began: the end of its life or, while it lives, of the span
	from  uint64 // the beginning of the span, ns since the trace began
	end   uint64 // of the span
	site  *site
}

// A birth is what is known of how a block began.
type birth struct {
	thread uint32 // 0: not known
	chain  uint16 // reallocs before, at most maxChain
	cause  analyzer.Cause
}

const maxChain = math.MaxUint16

// A site is what is known of a call site.
type site struct {
	number                       uint32
	function, file, module, comm string
	line                         int
	allocators                   []string
	name                         analyzer.SiteName

	memo  []memo // by the number of the expression's part
	judge memo   // whether the expression's part on sites holds
}

// A memo is what a part of an expression says of a site, once it was asked.
type memo uint8

const (
	notAsked memo = iota
	holds
	fails
)

func memoOf(ok bool) memo {
	if ok {
		return holds
	}
	return fails
}

// missing stands for a figure that a block doesn't have: no comparison with it holds.
var missing = math.NaN()

func (s *subject) lifetime() uint64 { return s.now - min(s.now, s.life.Since) }

func (s *subject) aliveAt(t float64) bool {
	return float64(s.life.Since) <= t && (s.live && t <= float64(s.now) || !s.live && t < float64(s.life.Ended))
}
