// Package unwind turns an ELF file's call frame information (.eh_frame and
// .debug_frame) into compact tables that say, for each instruction, where the
// caller's registers are. The unwinder in bpf/ walks stacks by them.
//
// Files are untrusted: every loop and allocation is bounded by the size of the
// file. Nothing in the package keeps state; all of it may be called
// concurrently.
//
// Sources: DWARF 5, section 6.4; the Linux Standard Base, "Exception Frames";
// the System V ABI supplements for x86-64 and AArch64.
package unwind
