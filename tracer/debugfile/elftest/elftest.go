// Package elftest makes ELF files for tests, as their owner would who wants to do harm, and measures what
// reading them takes.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
)

// Section is one of a file. Its header's Name, and its Off and Size unless Off is given, come from the rest.
type Section struct {
	Name string
	elf.Section64
	Data []byte
}

// File makes an ELF file for amd64 of sections, which come in this order from 1 on.
func File(sections ...Section) []byte {
	names, data := []byte{0}, []byte{}
	table := []elf.Section64{{}}
	base := uint64(64 + 64*(len(sections)+2))
	for _, s := range sections {
		s.Section64.Name = uint32(len(names))
		if s.Off == 0 {
			s.Off, s.Size = base+uint64(len(data)), uint64(len(s.Data))
		}
		table = append(table, s.Section64)
		names, data = append(append(names, s.Name...), 0), append(data, s.Data...)
	}
	table = append(table, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: base + uint64(len(data)), Size: uint64(len(names))})
	head := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phentsize: 56,
		Shoff: 64, Shentsize: 64, Shnum: uint16(len(table)), Shstrndx: uint16(len(table) - 1),
	}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{head, table, data, names} {
		_ = binary.Write(&b, binary.LittleEndian, part) // into memory
	}
	return b.Bytes()
}

// Allocated is how many bytes f allocates, those that it gives back included, and whatever runs beside it.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
