// Package dwarf finds the function, source line and inlined functions of an
// address in DWARF 2 to 5, reading as little of it as it can.
//
// debug/dwarf of the standard library parses the abbreviations of all units
// up front and allocates for every entry it passes; on hundreds of megabytes
// that is what costs. Here the unit headers are hopped over once, a unit's own
// ranges tell whether it has the address, only its function entries are
// visited, and inlined functions only inside the function that was hit.
//
// The sections are slices, typically of a memory-mapped file; they are not
// copied and not trusted. All reads are bounds-checked, all loops and
// allocations bounded by the input's size and by a budget a lookup.
//
// A Data is used from one goroutine at a time.
package dwarf
