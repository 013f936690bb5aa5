// Package symbol turns addresses of a process into functions, source lines
// and inlined frames.
//
// A Space is what one process had mapped: it maps every executable file of the
// process into memtrace as soon as it sees it, so that names survive the
// target's exit and the file's deletion or replacement. A Resolver holds what
// was learned from those files: symbol tables, and DWARF read lazily, unit by
// unit. It serves any number of Spaces; both may be used from several
// goroutines at once.
//
// Where names come from, and their limits, stands in docs/symbols.md. Files
// are untrusted: whatever they hold, a lookup gives fewer names and a warning,
// never a panic, also where a file is truncated while it is mapped.
package symbol
