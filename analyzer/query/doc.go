// Package query answers questions about single blocks of a trace: which ones fulfil an expression, and what they
// add up to by anything that is known of them.
//
// Compile makes a Query of an expression: typed, so that a comparison of a size with a time is an error with its
// place. What it asks of names (function, stack, …) is looked up once a call site, what it asks of times, sizes and
// threads is looked at in each block, and only where the site's part holds.
//
// Run has an Analyzer take a stream of inputs and observes the lives of blocks (analyzer.Observer), so that sums
// are those of the Report. A block is judged as it ends, or where the looked-at span does if it lives then.
// Names come late in a stream: where the sums can be kept apart by site until then, the stream is gone through once;
// else twice, first for the names.
//
// Memory is bounded by what lives and by the groups, never by the number of events. What finds no room is counted, and
// the Result says so.
//
// A Query may be used by several goroutines, a Result by one.
package query
