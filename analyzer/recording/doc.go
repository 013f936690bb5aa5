// Package recording keeps a trace in a file and reads it back: all that an Analyzer is told (package input), in
// its order, and the last Report. docs/recording-format.md has the layout.
//
// A Writer takes inputs as they come; it encodes them at once, as what they lend is used again, and a goroutine of
// its own compresses and writes. A Reader gives the same inputs back, says what is missing and of which span of
// time, and bounds what a file can make it take: a file is as untrusted as its sender.
//
// A Writer is for one goroutine; a Reader, too. Several Readers may read a file while it is written.
package recording
