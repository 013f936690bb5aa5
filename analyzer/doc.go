// Package analyzer turns the events of a trace and periodic samples of /proc
// into a Report: the live heap, its call sites, where the resident set is,
// and which sites leak.
//
// Analyzer.Take is the one way in: see the package input. A Report depends on the Config and on what
// Take was given, in that order, and on nothing else; an Analyzer reads no clock, no file and no process.
// What does (Sampler, Check, Repair, FreeWalk, Untraced) stands beside it, looks at its live blocks, and changes
// nothing there: what it finds goes to Take as well.
//
// An Analyzer is used from one goroutine; it holds no locks.
package analyzer
