// Package snapshot takes a picture of the memory of all processes of a
// machine, mapping by mapping, keeps it in a file, and reads it on any other.
//
// Take reads the live machine through procfs, within a stall budget. Write
// and Read are the file, described in docs/snapshot.md: length-framed,
// checksummed, compressed blocks, the same on every architecture. What Read
// is given is untrusted: it bounds each length, count and sum.
//
// A figure that could not be had is never 0: a Process says by its Access
// whether its figures are there, and Why they are not.
//
// A Snapshot is plain data: once taken or read nothing changes it, and any
// number of goroutines may look at it. Sizes are bytes. Smaps is the one
// source of a process's components, so that their sum is its RSS.
package snapshot
