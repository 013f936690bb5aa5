// Package gate decides whether a job passes: it reads the conditions of
// --fail-on, watches the Reports of a trace, and writes into the last one its
// Outcome, which the writers in analyzer/render show in each format.
//
//	rules.go     what can be asked: kinds of leaks, and limits on figures
//	judge.go     watches the Reports and decides
//	figures.go   which figure of the Report each limit reads
//	course.go    how a process's live bytes change from Report to Report
//	problems.go  why a decision can't be relied on
//	baseline.go  the leaks of an earlier Report, which don't fail a job again
//
// docs/ci.md describes the conditions for users. A Judge is used from one
// goroutine; everything else is safe for concurrent use.
package gate
