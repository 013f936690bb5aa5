package debugfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits on the headers of an ELF file. Programs and libraries have some 40 sections
// and 15 segments; object files with a section a function are not mapped as code.
const (
	maxSections  = 16 << 10
	maxSegments  = 512
	maxHeader    = 128      // of a section, in bytes
	maxNameTable = 16 << 20 // the table that section names lie in; some compilers put all names there
	maxNames     = 4 << 20  // of section names that are taken from it
	maxDynamic   = 1 << 20
	maxStrings   = 256 << 20 // of a table of symbols' names that is searched
	maxSymbols   = 512 << 20 // of a table of symbols, likewise
)

// ErrHeaders: the headers of an ELF file ask for more memory than those of any
// program or library do.
var ErrHeaders = errors.New("its ELF headers claim more than any program's do: the file is left alone")

// ReadELF is elf.NewFile, for files that are not trusted: what the headers claim is
// checked before memory is taken for it. debug/elf copies each section's name, of any length, and reads
// whole tables, of any size, which in a sparse file takes no room on the disk.
// It gets what was checked, whatever the file's owner writes meanwhile.
func ReadELF(r io.ReaderAt) (*elf.File, error) {
	f := &frozen{ReaderAt: r}
	if err := checkHeaders(f); err != nil {
		return nil, err
	}
	return elf.NewFile(f)
}

// frozen is a file parts of which are as they were when they were looked at.
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

// take reads n bytes at an offset, and keeps them.
func (f *frozen) take(at, n uint64) ([]byte, error) {
	if at > math.MaxInt64-n {
		return nil, io.ErrUnexpectedEOF
	}
	// Read as far as there is something: n may be much more.
	data, err := io.ReadAll(io.NewSectionReader(f.ReaderAt, int64(at), int64(n)))
	if err == nil && uint64(len(data)) < n {
		err = io.ErrUnexpectedEOF
	}
	f.parts = append(f.parts, part{int64(at), data})
	return data, err
}

// headers are where the section headers of a 64-bit file lie.
type headers struct {
	order             binary.ByteOrder
	at                uint64
	size, count, name int
}

// checkHeaders bounds what elf.NewFile takes. What it refuses for itself is left to it.
func checkHeaders(f *frozen) error {
	head, err := f.take(0, 64)
	switch {
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return nil // and it says why it is no ELF file
	case err != nil:
		return fmt.Errorf("read the ELF header: %w", err)
	case elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64:
		return errors.New("not a 64-bit ELF file")
	}
	h := headers{order: binary.LittleEndian}
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		h.order = binary.BigEndian
	}
	segmentSize, segments := h.order.Uint16(head[54:]), h.order.Uint16(head[56:])
	if segments > maxSegments || segmentSize > 1024 {
		return fmt.Errorf("%d segments: %w", segments, ErrHeaders)
	}
	h.at, h.size = h.order.Uint64(head[40:]), int(h.order.Uint16(head[58:]))
	h.count, h.name = int(h.order.Uint16(head[60:])), int(h.order.Uint16(head[62:]))
	if h.count > maxSections || h.size > maxHeader || h.at != 0 && h.count == 0 && h.counted(f) {
		return fmt.Errorf("more than %d sections: %w", maxSections, ErrHeaders)
	}
	return h.checkNames(f)
}

// counted says whether the number of sections stands in the first of them, as
// where there are more than 65,280.
func (h headers) counted(f *frozen) bool {
	first, err := f.take(h.at, sectionHeader)
	return err != nil || h.order.Uint64(first[32:]) != 0
}

const sectionHeader = 64 // bytes of an Elf64_Shdr

// checkNames bounds the table of the sections' names, and the sum of their lengths.
func (h headers) checkNames(f *frozen) error {
	if h.size < sectionHeader || h.name == 0 || h.name >= h.count {
		return nil // it refuses those, or takes no names
	}
	table, err := f.take(h.at, uint64(h.count*h.size))
	if err != nil {
		return fmt.Errorf("read the section headers: %w", err)
	}
	field := func(i, at int) []byte { return table[i*h.size+at:] }
	flags, at, size := h.order.Uint64(field(h.name, 8)), h.order.Uint64(field(h.name, 24)), h.order.Uint64(field(h.name, 32))
	if size > maxNameTable || elf.SectionFlag(flags)&elf.SHF_COMPRESSED != 0 {
		return fmt.Errorf("a table of section names of %d bytes: %w", size, ErrHeaders)
	}
	names, err := f.take(at, size)
	if err != nil {
		return fmt.Errorf("read the names of sections: %w", err)
	}
	sum := 0
	for i := range h.count {
		off := h.order.Uint32(field(i, 0))
		if uint64(off) >= uint64(len(names)) {
			continue
		}
		name := names[off:min(len(names), int(off)+maxNames)]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if sum += len(name); sum >= maxNames {
			return fmt.Errorf("more than %d bytes of section names: %w", maxNames, ErrHeaders)
		}
	}
	return nil
}

// Needed is how many libraries the dynamic section of a file asks for; none where it can't be read.
func Needed(f *elf.File) (n int) {
	s := f.SectionByType(elf.SHT_DYNAMIC)
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 || s.FileSize > maxDynamic {
		return 0
	}
	data, _ := io.ReadAll(io.NewSectionReader(s, 0, int64(s.FileSize))) // as far as it can be read
	for ; len(data) >= 16; data = data[16:] {
		switch elf.DynTag(f.ByteOrder.Uint64(data)) {
		case elf.DT_NULL:
			return n
		case elf.DT_NEEDED:
			n++
		}
	}
	return n
}

// FindSymbols returns the symbols of the given names, those of the dynamic table first. It reads
// the tables in pieces, and nothing of a table that is larger than any honest one.
func FindSymbols(f *elf.File, names ...string) (found []elf.Symbol) {
	for _, kind := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		s := f.SectionByType(kind)
		if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 || s.FileSize > maxSymbols || uint64(s.Link) >= uint64(len(f.Sections)) {
			continue
		}
		strs := f.Sections[s.Link]
		if strs.Type != elf.SHT_STRTAB || strs.Flags&elf.SHF_COMPRESSED != 0 || strs.FileSize > maxStrings {
			continue
		}
		if where := findNames(strs, names); len(where) > 0 {
			found = appendSymbols(found, f, s, where)
		}
	}
	return found
}

const piece = 1 << 20

// maxPlaces bounds where one name is looked for; a table has each once, or twice.
const maxPlaces = 1 << 12

// findNames returns where in a string table the names stand.
func findNames(strs *elf.Section, names []string) map[uint32]string {
	where := map[uint32]string{}
	longest := 0
	for _, name := range names {
		longest = max(longest, len(name)+1)
	}
	buf := make([]byte, min(piece+uint64(longest), strs.FileSize))
	for off := uint64(0); off < strs.FileSize; off += piece {
		n, err := strs.ReadAt(buf[:min(uint64(len(buf)), strs.FileSize-off)], int64(off))
		if err != nil && err != io.EOF {
			break
		}
		for _, name := range names {
			addPlaces(where, buf[:n], off, name)
		}
	}
	return where
}

func addPlaces(where map[uint32]string, text []byte, off uint64, name string) {
	want := append([]byte(name), 0)
	for at := 0; len(where) < maxPlaces; at++ {
		i := bytes.Index(text[at:], want)
		if i < 0 || at+i >= piece {
			return
		}
		at += i
		where[uint32(off)+uint32(at)] = name
	}
}

const symbolSize = 24 // bytes of an Elf64_Sym

// maxFound bounds the symbols that are returned.
const maxFound = 1 << 12

func appendSymbols(found []elf.Symbol, f *elf.File, s *elf.Section, where map[uint32]string) []elf.Symbol {
	const whole = piece / symbolSize * symbolSize
	buf := make([]byte, min(whole, s.FileSize))
	for off := uint64(0); off < s.FileSize; off += whole {
		n, err := s.ReadAt(buf[:min(whole, s.FileSize-off)], int64(off))
		if err != nil && err != io.EOF {
			break
		}
		for b := buf[:n]; len(b) >= symbolSize; b = b[symbolSize:] {
			name, ok := where[f.ByteOrder.Uint32(b)]
			if !ok {
				continue
			}
			if len(found) >= maxFound {
				return found
			}
			found = append(found, elf.Symbol{
				Name: name, Info: b[4], Other: b[5], Section: elf.SectionIndex(f.ByteOrder.Uint16(b[6:])),
				Value: f.ByteOrder.Uint64(b[8:]), Size: f.ByteOrder.Uint64(b[16:]),
			})
		}
	}
	return found
}
