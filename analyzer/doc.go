// Package analyzer turns the events of a trace and periodic samples of /proc
// into a Report: the live heap, its call sites, where the resident set is,
// and which sites leak.
//
// An Analyzer is used from one goroutine; it holds no locks.
package analyzer
