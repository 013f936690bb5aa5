package analyzer

import "github.com/memtrace/memtrace/analyzer/report"

// SetLeftOut notes how many calls the tracer has counted and not recorded so
// far. It is for a tracer that counts them all (Config.Counted).
func (a *Analyzer) SetLeftOut(l report.LeftOut) { a.leftOut = l }

// addLeftOut takes the calls that were left out into the events.
func addLeftOut(e *report.Events, l report.LeftOut) {
	e.Alloc += l.Alloc
	e.Free += l.Free
	e.Realloc += l.Realloc
}

// mayBeLeftOut reports whether a block that is not known may be one that was left out.
func (a *Analyzer) mayBeLeftOut() bool {
	return a.leftOut != report.LeftOut{} || a.intervals.bytes[1] != 0
}
