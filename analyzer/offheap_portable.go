//go:build !linux || viewer

package analyzer

import "unsafe"

// newChunk returns chunkSize bytes of zeroes of Go's heap: segments hold no
// pointers, so that they are not scanned. What is read there is a recording, which
// has no need for huge pages.
func newChunk(bool) (unsafe.Pointer, error) {
	return unsafe.Pointer(unsafe.SliceData(make([]segment, chunkSegs))), nil
}

// dropChunk leaves a chunk to the garbage collector.
func dropChunk(unsafe.Pointer) {}

// discard cannot give back a part of a chunk.
func discard([]byte) bool { return false }
