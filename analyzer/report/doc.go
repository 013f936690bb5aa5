// Package report is the Report: all that memtrace knows at one instant, as
// data. The analyzer makes it, the writers in analyzer/render show it, and
// programs read it as JSON. It imports nothing of memtrace's but
// tracer/event.
//
//	report.go       the Report, its processes and call sites, and the schema's name
//	leak.go         leaks, and what became of the conditions of a job
//	loss.go         what was not seen, or not kept
//	mapping.go      memory outside of the traced heap
//	fingerprint.go  what a leak is called from one run to the next
//	function.go     the function that a call site is called by
//	human.go        figures in words
//	choose.go       the first sites by a figure
//
// Sizes are bytes and times nanoseconds, both integers; times count from the
// attach unless a field says otherwise. The JSON form (Schema) is a contract:
// fields may be added, and no array in it is ever null.
package report
