// Package bpf holds the kernel half of memtrace as compiled objects and the
// Go types that bpf2go derives from them. Only package tracer imports it.
package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -go-package bpf -type record_head -type record_alloc -type record_realloc -type stack_record -type thread -type scratch -type unwind_rule -type unwind_segment -type table_chunk -type ring_line -type pressure -type blame -type mark -type signal_key -type signal_sent -type interpreter -type python_frame Memtrace memtrace.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -nostdinc -I headers
