// Package probe finds the allocation functions of a process and the
// instruction at which to probe each.
//
// Discover reads a process's mappings and inspects every mapped executable
// file, opened through the process itself, so that mount namespaces, deleted
// files and replaced files cannot mislead it. Inspect does the same for one
// file and touches nothing else. The files are untrusted: all that is read
// from them is bounded, and a malformed one gives an error.
//
// The instruction matters because the kernel executes some instructions under
// a uprobe itself and must single-step all others, at some thirty times the
// cost. docs/probes.md explains how it is chosen, and why the choice is sound.
//
// Nothing here keeps state: all functions may be called concurrently. An
// Object may be used from several goroutines until Close.
package probe
