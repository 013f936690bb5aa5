package python

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"
)

const (
	typeDealloc    = 48       // offset of tp_dealloc in a PyTypeObject, of all known versions
	maxRelocations = 32 << 20 // bytes that are searched
)

// freesCode returns the address of the function that frees code objects: what their type, which is at an address, has as its
// tp_dealloc. 0: it is not found, or is no function by the file's own call frame information.
func freesCode(r io.ReaderAt, f *elf.File, codeType uint64) uint64 {
	var word [8]byte
	if !readAddress(r, f, codeType+typeDealloc, word[:]) {
		return 0
	}
	addr := binary.LittleEndian.Uint64(word[:])
	if addr == 0 {
		addr = relocatedTo(f, codeType+typeDealloc)
	}
	if _, ok := slices.BinarySearch(functionStarts(f), addr); !ok {
		return 0
	}
	return addr
}

// relocatedTo returns the address that the loader puts into a word, before it adds where the file is mapped (R_X86_64_RELATIVE).
// 0: it puts none there.
func relocatedTo(f *elf.File, place uint64) uint64 {
	const size = 24 // of Elf64_Rela
	s := f.Section(".rela.dyn")
	if s == nil || s.Type != elf.SHT_RELA || s.FileSize > maxRelocations {
		return 0
	}
	data, err := s.Data()
	if err != nil {
		return 0
	}
	le := binary.LittleEndian
	for ; len(data) >= size; data = data[size:] {
		if le.Uint64(data) == place && elf.R_X86_64(le.Uint64(data[8:])) == elf.R_X86_64_RELATIVE {
			return le.Uint64(data[16:])
		}
	}
	return 0
}
