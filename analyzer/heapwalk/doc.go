// Package heapwalk reads glibc's heap from outside the process: which blocks
// are allocated, which are free, and what the allocator's own records are.
// Nothing was traced, and the process runs on (or stands still, if the caller
// stopped it).
//
// docs/untraced.md says what is read and how races with the running process
// are found out. The pieces, in the order in which they are used:
//
//	memory.go  reads the target, only pages that are there
//	arena.go   finds struct malloc_state in memory, by its looks alone
//	params.go  finds struct malloc_par: where the heap begins, how much is mmapped
//	region.go  the stretches of memory in which chunks lie
//	chunks.go  goes from chunk to chunk through one of them
//	mapped.go  finds the blocks that have a mapping of their own
//	tables.go  finds the blocks from which threads' lists of freed blocks hang
//	cached.go  follows those lists, and arenas'
//	heap.go    all of it together: Walk
//	group.go   what a block's first words tell: a type, text, zeros
//	claims.go  blocks that someone takes for allocated
//	judge.go   says which of those are, while the heap goes on changing
//	check.go   two walks and scans that agree: what is leaked
//
// It knows glibc 2.26 to 2.43 for x86-64 and arm64; another layout gives an
// error, not a guess. A walk is used from one goroutine. It needs the right to
// ptrace the process, and Linux 5.3.
package heapwalk
