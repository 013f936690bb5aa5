//go:build linux && !viewer

package goheap

import "encoding/binary"

// The layouts that are read here are those of little-endian machines.

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
