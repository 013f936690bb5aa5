// Package launch starts a program so that a tracer can attach before the
// program's first instruction, and before any shared object's.
//
// The program is held by ptrace from its exec on, and stops whenever the
// dynamic loader maps code; the caller looks at each stop whether there is
// something to attach to. Once the caller is content ptrace lets go, and the
// program runs as if it had been started directly; or, where the caller wants
// to look at the program at its end, ptrace stays and stops it there once more
// (see watch). Should memtrace die in between, the kernel lets go in its stead
// and the program runs on.
package launch
