// Package reach finds out which blocks of a process's heap nothing points to
// any more, by reading its memory as Valgrind's and LeakSanitizer's leak
// checks do, but from outside and, by default, while it runs on.
//
// A Scan takes the live blocks from a trace and everything else from the
// kernel. docs/reachability.md states what counts as a pointer, what as a
// root, and how a leaked block is classed.
//
// The pieces, in the order in which they are used:
//
//	kinds.go    the words: kinds of blocks, kinds of roots
//	space.go    which memory there is: windows of 256 KiB and the pages in them
//	stacks.go   which part of it is dead: stacks below their stack pointers
//	roots.go    what kinds of roots there are
//	index.go    all blocks, by address
//	find.go     which block an address is in
//	memory.go   reads the target, in steps that hold its mmap lock shortly
//	sweep.go    reads all memory once, and picks out the words that may be pointers
//	batch.go    looks those up, many at a time
//	edges.go    what blocks point to that were not known to be reachable when read
//	mark.go     reads again what must be, from window to window until there is no more
//	words.go    the words of what is read again
//	interior.go which pointers into a block are as good as one to its start
//	empty.go    arrays without elements, whose pointer is the address after them
//	scan.go     all of it together
//	agree.go    what scans agree on
//
// A Scan uses all cores but is itself called from one goroutine. It needs the
// right to ptrace the process, and Linux 5.3.
package reach
