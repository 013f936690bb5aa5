//go:build cgo

// With this file, bare.go's program has C code that allocates: C's heap can be
// traced, Go's cannot.

package main

// #include <stdlib.h>
// void *kept[10];
// __attribute__((noipa)) void keep(void) { for (int i = 0; i < 10; i++) kept[i] = malloc(1000); }
import "C"

func init() {
	atGrowth = func() { C.keep() }
}
