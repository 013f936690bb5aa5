//go:build linux && !viewer

package analyzer

import (
	"debug/elf"
	"encoding/binary"
	"io"

	"github.com/memtrace/memtrace/procfs"
)

// Anonymous memory that begins where a file's writable private mapping ends looks
// like the .bss of that file. Whether it is, and how far, the file itself says: its
// data segment has so many bytes in the file and so many in memory. The kernel
// puts what programs map right behind a library's data wherever there is room.

// statics remembers where the static data of mapped files ends.
type statics struct {
	p     *procfs.Process
	known map[staticKey]uint64
}

// staticKey is a mapping of a file.
type staticKey struct {
	start, end, offset, inode uint64
	major, minor              uint32
}

// maxStatics bounds what is remembered of a process.
const maxStatics = 4096

// end is where the static data ends whose part in the file is v; 0: not known.
func (s *statics) end(v *procfs.VMA) uint64 {
	if s.p == nil || v.Inode == 0 {
		return 0
	}
	key := staticKey{v.Start, v.End, v.Offset, v.Inode, v.DevMajor, v.DevMinor}
	if end, ok := s.known[key]; ok {
		return end
	}
	if s.known == nil || len(s.known) >= maxStatics {
		s.known = make(map[staticKey]uint64)
	}
	f, err := s.p.OpenMapped(v)
	if err != nil {
		return 0 // it may be another time
	}
	defer f.Close()
	s.known[key] = staticEnd(f, v)
	return s.known[key]
}

// Sizes of a file's header and of a program header, and how many of these are read.
const (
	elfHeaderBytes     = 64
	programHeaderBytes = 56
	maxProgramHeaders  = 256
)

// staticEnd is where the load segment ends, in memory and rounded up to whole pages, that a mapping of the
// file is a part of. What is no ELF file has no static data: it ends with the mapping. 0: not known.
func staticEnd(r io.ReaderAt, v *procfs.VMA) uint64 {
	var header [elfHeaderBytes]byte
	if n, _ := r.ReadAt(header[:], 0); n < len(elf.ELFMAG) || string(header[:len(elf.ELFMAG)]) != elf.ELFMAG {
		return v.End
	} else if n < elfHeaderBytes || elf.Class(header[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(header[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return 0
	}
	at, size := binary.LittleEndian.Uint64(header[32:]), binary.LittleEndian.Uint16(header[54:])
	count := min(int(binary.LittleEndian.Uint16(header[56:])), maxProgramHeaders)
	if at > 1<<62 || size != programHeaderBytes {
		return 0
	}
	table := make([]byte, count*programHeaderBytes)
	if _, err := r.ReadAt(table, int64(at)); err != nil {
		return 0
	}
	for ; len(table) > 0; table = table[programHeaderBytes:] {
		if end, ok := segmentEnd(table, v); ok {
			return end
		}
	}
	return v.End
}

// segmentEnd is where the segment of a program header ends in memory, if the mapping is a part of it.
func segmentEnd(header []byte, v *procfs.VMA) (uint64, bool) {
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(header[at:]) }
	kind, flags := binary.LittleEndian.Uint32(header), binary.LittleEndian.Uint32(header[4:])
	offset, fileSize, memorySize := word(8), word(32), word(40)
	if elf.ProgType(kind) != elf.PT_LOAD || elf.ProgFlag(flags)&elf.PF_W == 0 || offset > 1<<62 || fileSize > 1<<62 || memorySize > 1<<48 {
		return 0, false
	}
	first, last := offset&^(pageBytes-1), roundUp(offset+fileSize)
	if v.Offset < first || v.Offset >= last {
		return 0, false
	}
	begin := v.Start - v.Offset + offset // where the segment's first byte is
	return roundUp(begin + memorySize), true
}

func roundUp(n uint64) uint64 { return (n + pageBytes - 1) &^ (pageBytes - 1) }
