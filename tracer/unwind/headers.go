package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits on an ELF file's headers. debug/elf takes what a file says: any number of sections, and a copy of each one's
// name, all of which may be one megabyte of a table without an end.
const (
	maxHeaders  = 16 << 10
	maxNames    = 1 << 20
	maxNameSum  = 4 << 20
	maxDynamic  = 1 << 20
	maxSymbols  = 256 << 20 // bytes of a symbol table, and of its names
	maxNamesake = 64        // symbols that are looked at
)

var errHeaders = errors.New("too many headers, or names of sections")

// frozen is a file whose headers are as they were when they were looked at, whatever its owner writes meanwhile.
type frozen struct {
	io.ReaderAt
	parts []part
}

type part struct {
	at   int64
	data []byte
}

func (f *frozen) ReadAt(to []byte, at int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(to, at)
	for _, p := range f.parts {
		if from := max(p.at, at); from < min(p.at+int64(len(p.data)), at+int64(n)) {
			copy(to[from-at:n], p.data[from-p.at:])
		}
	}
	return n, err
}

// take reads n bytes at an offset that the file states, and keeps them.
func (f *frozen) take(at, n uint64) ([]byte, error) {
	data := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f.ReaderAt, int64(at), int64(n)), data); err != nil {
		return nil, err
	}
	f.parts = append(f.parts, part{int64(at), data})
	return data, nil
}

// freeze reads the headers that debug/elf will go by, and refuses what it would take too much for.
func freeze(r io.ReaderAt) (*frozen, error) {
	f := &frozen{ReaderAt: r}
	var h elf.Header64
	data, err := f.take(0, uint64(binary.Size(h)))
	if err != nil {
		return nil, err
	}
	if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil {
		return nil, err
	}
	if class, data := elf.Class(h.Ident[elf.EI_CLASS]), elf.Data(h.Ident[elf.EI_DATA]); class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("tables for %v, %v: not supported", class, data)
	}
	if h.Phnum > maxHeaders || h.Phnum > 0 && h.Phentsize != progSize {
		return nil, errHeaders
	}
	if h.Shoff == 0 {
		return f, nil
	}
	return f, f.sections(h)
}

// Sizes of a program header and of a section header.
const progSize, sectionSize = 56, 64

// sections reads the section headers and their names.
func (f *frozen) sections(h elf.Header64) error {
	n, names := uint64(h.Shnum), uint64(h.Shstrndx)
	if n == 0 || names == uint64(elf.SHN_XINDEX) { // they are in the first section's header
		first, err := f.take(h.Shoff, sectionSize)
		if err != nil {
			return err
		}
		if n == 0 {
			n = binary.LittleEndian.Uint64(first[32:])
		}
		if names == uint64(elf.SHN_XINDEX) {
			names = uint64(binary.LittleEndian.Uint32(first[40:]))
		}
	}
	if n > maxHeaders || n > 0 && h.Shentsize != sectionSize {
		return errHeaders
	}
	data, err := f.take(h.Shoff, n*sectionSize)
	if err != nil {
		return err
	}
	list := make([]elf.Section64, n)
	if _, err := binary.Decode(data, binary.LittleEndian, list); err != nil || names >= n {
		return err // debug/elf refuses it
	}
	return f.names(list, list[names])
}

// names reads the table of the sections' names, and adds up what those take.
func (f *frozen) names(list []elf.Section64, table elf.Section64) error {
	if table.Size > maxNames || elf.SectionFlag(table.Flags)&elf.SHF_COMPRESSED != 0 {
		return errHeaders
	}
	text, err := f.take(table.Off, table.Size)
	if err != nil {
		return err
	}
	sum := 0
	for _, s := range list {
		if uint64(s.Name) >= table.Size {
			continue // debug/elf refuses it
		}
		n := bytes.IndexByte(text[s.Name:], 0)
		if sum += n; n < 0 || sum > maxNameSum {
			return errHeaders
		}
	}
	return nil
}

// needsLibraries reports whether a file says that it needs another one.
func needsLibraries(e *elf.File) bool {
	s := e.SectionByType(elf.SHT_DYNAMIC)
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 {
		return false
	}
	data := make([]byte, min(s.Size, maxDynamic))
	n, _ := io.ReadFull(io.NewSectionReader(s, 0, int64(len(data))), data)
	for data = data[:n]; len(data) >= 16; data = data[16:] {
		switch elf.DynTag(binary.LittleEndian.Uint64(data)) {
		case elf.DT_NEEDED:
			return true
		case elf.DT_NULL:
			return false
		}
	}
	return false
}

// eachSymbol yields the defined symbols of any of the names until yield returns false. Tables of symbols are larger
// than what is wanted of them: neither they nor their names are held.
func eachSymbol(e *elf.File, kind elf.SectionType, names []string, yield func(elf.Sym64) bool) {
	s := e.SectionByType(kind)
	if s == nil || uint64(s.Link) >= uint64(len(e.Sections)) {
		return
	}
	text := e.Sections[s.Link]
	if (s.Flags|text.Flags)&elf.SHF_COMPRESSED != 0 || s.Size > maxSymbols || text.Size > maxSymbols {
		return
	}
	places := findNames(text, text.Size, names)
	if len(places) == 0 {
		return
	}
	const size = elf.Sym64Size
	left := maxNamesake
	chunk := make([]byte, size*4096)
	for at := uint64(size); at < s.Size && left > 0; at += uint64(len(chunk)) {
		n, _ := s.ReadAt(chunk[:min(uint64(len(chunk)), s.Size-at)], int64(at))
		for part := chunk[:n]; len(part) >= size && left > 0; part = part[size:] {
			var symbol elf.Sym64
			if name := binary.LittleEndian.Uint32(part); !places[name] {
				continue
			}
			if _, err := binary.Decode(part, binary.LittleEndian, &symbol); err != nil || symbol.Shndx == uint16(elf.SHN_UNDEF) {
				continue
			}
			if left--; !yield(symbol) {
				return
			}
		}
	}
}

// findNames returns the offsets of strings in a table of them; one may be the end of another one.
func findNames(r io.ReaderAt, size uint64, names []string) map[uint32]bool {
	found := make(map[uint32]bool)
	overlap := 0
	for _, name := range names {
		overlap = max(overlap, len(name))
	}
	window := make([]byte, 1<<20)
	for at := uint64(0); at < size; at += uint64(len(window) - overlap) {
		n, _ := r.ReadAt(window[:min(uint64(len(window)), size-at)], int64(at))
		for _, name := range names {
			end := name + "\x00"
			for from := 0; len(found) < maxNamesake; {
				i := bytes.Index(window[from:n], []byte(end))
				if i < 0 {
					break
				}
				found[uint32(at)+uint32(from+i)] = true
				from += i + 1
			}
		}
	}
	return found
}
