// Package runtimemap tells which parts of a process's address space a language's runtime uses for what, read from
// outside: the process is not stopped and not written to, and no agent runs in it.
//
// In the order in which they are used:
//
//   - Find looks by what a process has mapped which runtime it is (find.go).
//   - HotSpot (the JVM of OpenJDK) exports a table of its own structures for debuggers, gHotSpotVMStructs (vmstructs.go). By it,
//     the Java heap, the code cache and the card table are found (jvm.go), and what classes lie in (metaspace.go).
//   - V8 begins each page of its heap, at an address that is a multiple of 256 KiB, with a header that says where the
//     page ends (v8.go).
//
// All of that is data of the target. Each loop over it and each read of it is bounded. What does not look as the runtime
// writes it is left out: then that memory is in no Part. What a hostile process can reach is a wrong answer about itself.
//
// A read may wait for another program: memory may be a file of FUSE, or its pages come by userfaultfd(2), and then
// they come when that program likes. So what is here is called in goroutines that nobody has to wait for.
//
// A Runtime is for one goroutine at a time. Layouts are those of 64-bit little-endian machines.
package runtimemap
