// Package debugfile knows where the separate debug file of a stripped ELF file
// is kept, and opens what may be one: files that others name and may have put
// there. It is the part of that which the search for allocators (tracer/probe)
// and that for names (analyzer/symbol) have in common, and imports nothing of
// ours.
//
// Nothing here keeps state: all functions may be called concurrently.
package debugfile
