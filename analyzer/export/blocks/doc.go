// Package blocks writes the exports that hold single blocks, or the course of time, from a stream of inputs:
//
//	blocks.go     what is asked for, and Write
//	stream.go     a stream gone through by an analyzer; all that happens to blocks, as a sink is told
//	survey.go     the first time through: who is there, when, how many blocks, of what sizes
//	stacks.go     the call stacks as one tree, once the stream's end has named them
//	sizes.go      how many blocks of which sizes there are, and a sample of them
//	course.go     live bytes over time, in so many steps
//	heaptrack.go, firefox.go with firefox_tables.go, perfetto.go: a format each
//	rows.go       what firefox.go keeps in a temporary file
//	json.go, proto.go: encodings
//
// A stream names its stacks last, so it is played twice: for the survey and the names, then for the blocks.
// Memory is bounded by the live blocks, the call sites and the processes, not by the events: what is written is
// streamed. Firefox's JSON has a column for each field, so its rows go through a temporary file, and their
// number is limited, as a browser has to hold them all.
//
// Unlike analyzer/export, which it lies below, this package needs the engine: what becomes of a block (a realloc
// that lost a race, a child's copies, an exec) is the analyzer's to say, and a second opinion would show other
// figures than its Reports do. So it is a package of its own, and those who write a saved Report go without.
//
// Names are a target's and may be hostile: all pass export.Label and export.Clip, and are escaped for the format.
package blocks
