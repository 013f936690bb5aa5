// Package goheap reads from outside what a running Go program's own memory profile holds: the samples of its heap
// by call stack that runtime.MemProfile and pprof's heap profile publish. The program needs no endpoint for that,
// is not stopped, and is not written to.
//
// In the order in which they are used:
//
//   - Open finds the runtime's variables in a process (program.go, locate.go): by symbols, in stripped programs by the
//     code of functions that pclntab names (code.go).
//   - Reader.Read walks the runtime's list of buckets (buckets.go) and scales the samples as pprof does (scale.go).
//   - table gives functions, files and lines of a stack from pclntab, inlined calls too (pclntab.go).
//
// All of that is data of the target. Each loop over it and each read of it is bounded; what does not look as the
// runtime writes it is an error.
//
// # What can race
//
// The list of buckets only grows at its head, and buckets are never freed, so a walk always ends at the same
// oldest one. Go publishes samples at most twice in a garbage collection, bucket by bucket. A walk may see that half done; so
// Read walks again until two walks agree, and otherwise says that they didn't (Profile.Unsettled).
//
// A Reader is for one goroutine at a time. Layouts are those of Go 1.20 to 1.26 on 64-bit little-endian machines.
package goheap
