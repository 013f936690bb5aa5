// Package export writes a Report for other tools: profiles, flame graphs, tables.
//
//	read.go    reads a saved Report (memtrace.report/1) within bounds
//	kind.go    the kinds of bytes, and what each stack of a Report has of them
//	label.go   what a frame is called; all names pass here
//	tree.go    stacks of one kind as a tree, for pictures
//	diff.go    two Reports as one list of signed stacks, for pictures: whole stacks, where analyzer/compare has sites
//	measure.go what each site of a Report has of a kind, for analyzer/compare
//	pprof.go, folded.go, svg.go, page.go, speedscope.go, csv.go, parquet.go, dhat.go, massif.go: a format each
//
// Names in a Report are the target's and may be hostile. Every writer escapes them for its format.
package export
