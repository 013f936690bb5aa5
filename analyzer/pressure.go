package analyzer

import "github.com/memtrace/memtrace/analyzer/report"

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
