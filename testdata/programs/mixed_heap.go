//go:build cgo

// With this file, bare.go's program has C code that allocates: C's heap can be
// traced, Go's cannot.

package main

// #include <stdlib.h>
// void *kept[15];
// __attribute__((noipa)) void keep(int from, int to) { for (int i = from; i < to; i++) kept[i] = malloc(1000); }
import "C"

func init() {
	atGrowth = func() {
		keepFirst()
		keepSecond()
	}
}

// keepFirst has C keep ten blocks.
//
//go:noinline
func keepFirst() { C.keep(0, 10) }

// keepSecond has it keep five.
//
//go:noinline
func keepSecond() { C.keep(10, 15) }
