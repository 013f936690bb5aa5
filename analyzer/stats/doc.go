// Package stats has the statistics that leaks are told by, as pure functions of
// their arguments: it imports nothing of memtrace's.
//
//	histogram.go  counts on a logarithmic scale, of sizes and of durations
//	survival.go   how long blocks live: Kaplan and Meier's curve, and tails
//	trend.go      whether values in time keep rising, and by how much
//
// Nothing here is safe for concurrent use while a Histogram is written to.
package stats
