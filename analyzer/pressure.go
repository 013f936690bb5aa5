package analyzer

// Pressure is what was done about events that came faster than they could be
// taken in: for a while, blocks were sampled.
type Pressure struct {
	Phases    int    `json:"phases"`
	SampledNS uint64 `json:"sampled_ns"` // all phases that Spans lists
	Now       bool   `json:"now"`        // a phase is under way
	// LeftOut are the calls that were not recorded in all phases; those of
	// Events have them in.
	LeftOut LeftOut `json:"left_out"`
	Spans   []Span  `json:"spans"` // the latest phases, in order
}

// LeftOut are calls that were seen, counted, and not recorded: exact figures.
type LeftOut struct {
	Alloc   uint64 `json:"alloc"`
	Free    uint64 `json:"free"`
	Realloc uint64 `json:"realloc"`
}

// SetLeftOut notes how many calls the tracer has counted and not recorded so
// far. It is for a tracer that counts them all (Config.Counted).
func (a *Analyzer) SetLeftOut(l LeftOut) { a.leftOut = l }

// add takes the calls that were left out into the events.
func (l LeftOut) add(e *Events) {
	e.Alloc += l.Alloc
	e.Free += l.Free
	e.Realloc += l.Realloc
}

// mayBeLeftOut reports whether a block that is not known may be one that was left out.
func (a *Analyzer) mayBeLeftOut() bool {
	return a.leftOut != LeftOut{} || a.intervals.bytes[1] != 0
}
