// Package procfs reads what the kernel tells about processes in /proc.
//
// Readers are rooted at a directory, so that a tree of fixture files serves
// as well as /proc. A Process holds its directory open: all of its files are
// opened relative to it, so a figure never comes from another process that
// was given the same PID later. A process that ends half-way through gives
// ErrGone.
//
// Sizes are in bytes. Text is parsed by hand from bounded buffers that are
// reused: reading Statm, Stat, Maps, Smaps, SmapsRollup and page states
// allocates nothing in the steady state. A line that is longer than a buffer
// is an error, never more memory.
//
// Reading smaps, smaps_rollup or pagemap walks the page tables while it holds
// the target's mmap lock, so it stalls the target's own mmap, munmap and page
// faults. Callers space such reads; Statm and Stat are harmless.
//
// FS may be shared by goroutines. A Process, a Pagemap and a Held are for one
// goroutine at a time, Held.Wait and Held.Alive excepted.
//
// The packages below build on this one: collect reads all processes of a
// machine, machine the machine itself, cgroup the control groups.
//
// Everything here works from Linux 5.3 on (pidfd_open); what newer kernels
// add is tried and, where it is not supported, done without.
package procfs
