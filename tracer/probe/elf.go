package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// Limits on what is read from a file, whatever its headers claim.
const (
	maxTable   = 64 << 20  // a symbol, string or relocation table
	maxNote    = 64 << 10  // a note section
	maxText    = 256 << 20 // code searched for branches
	maxDynamic = 64 << 10  // the dynamic section
	maxTables  = 512 << 20 // all tables that are read of a file, each time they are
	maxSlots   = 1 << 20   // relocations of single words
)

// errTooLarge: a table is larger than memtrace reads.
var errTooLarge = errors.New("larger than the limit")

// image is an ELF file opened for inspection. Addresses are ELF virtual
// addresses unless a name says otherwise.
type image struct {
	file  *elf.File
	r     io.ReaderAt
	order binary.ByteOrder
	asked asked
	left  []string // see Object.Left

	replacesReturns bool // see Choice.ReplaceReturns

	read uint64 // bytes of tables

	tlsSlots map[uint64]bool // addresses of words that hold the offset of a variable of each thread's from its pointer

	slots   map[uint64]uint64 // address of a word that PLT stubs jump through -> where it leads; see relocations
	imports map[uint64]string // the same, of functions that only another file defines: their names
	frames  *frames           // see frameTable
}

// openImage checks the header and reads the section and program headers.
func openImage(r io.ReaderAt) (*image, error) {
	var ident [20]byte
	if _, err := r.ReadAt(ident[:], 0); err != nil {
		return nil, fmt.Errorf("read ELF header: %w: %w", ErrNotELF, err)
	}
	if !bytes.HasPrefix(ident[:], []byte(elf.ELFMAG)) {
		return nil, ErrNotELF
	}
	if elf.Class(ident[elf.EI_CLASS]) == elf.ELFCLASS32 {
		return nil, Err32Bit
	}
	file, err := debugfile.ReadELF(r)
	if err != nil {
		return nil, fmt.Errorf("read ELF headers: %w", err)
	}
	if m := file.Machine; m != elf.EM_X86_64 && m != elf.EM_AARCH64 {
		return nil, fmt.Errorf("%w: %v", ErrNotSupportedMachine, m)
	}
	return &image{file: file, r: r, order: file.ByteOrder}, nil
}

// table returns the bytes of a section as they stand in the file.
func (im *image) table(s *elf.Section, limit uint64) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	if s.FileSize > limit {
		return nil, fmt.Errorf("section %q of %d bytes: %w of %d", s.Name, s.FileSize, errTooLarge, limit)
	}
	if im.read += s.FileSize; im.read > maxTables {
		return nil, fmt.Errorf("section %q: with the tables read before %w of %d", s.Name, errTooLarge, uint64(maxTables))
	}
	if s.Offset > math.MaxInt64-s.FileSize {
		return nil, fmt.Errorf("section %q lies at %#x: out of range", s.Name, s.Offset)
	}
	whole := io.NewSectionReader(im.r, int64(s.Offset), int64(s.FileSize))
	var last [1]byte
	if n, _ := whole.ReadAt(last[:], int64(s.FileSize)-1); n == 0 { // cut off: what is there
		return im.cut(s, whole)
	}
	// What grows on the way would take several times as much.
	data := make([]byte, s.FileSize)
	if _, err := io.ReadFull(whole, data); err != nil {
		return nil, fmt.Errorf("read section %q: %w", s.Name, err)
	}
	return data, nil
}

// cut reads a section that reaches beyond the end of the file.
func (im *image) cut(s *elf.Section, whole io.Reader) ([]byte, error) {
	data, err := io.ReadAll(whole)
	if err != nil {
		return nil, fmt.Errorf("read section %q: %w", s.Name, err)
	}
	return data, nil
}

// section returns the first section of a type, or nil.
func (im *image) section(t elf.SectionType) *elf.Section {
	for _, s := range im.file.Sections {
		if s.Type == t {
			return s
		}
	}
	return nil
}

// linked returns the section that s.Link names, or nil.
func (im *image) linked(s *elf.Section) *elf.Section {
	if int64(s.Link) >= int64(len(im.file.Sections)) {
		return nil
	}
	return im.file.Sections[s.Link]
}

// segment returns the executable load segment that holds addr, or nil.
func (im *image) segment(addr uint64) *elf.Prog {
	for _, p := range im.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}

// fileOffset translates a virtual address of code to its offset in the file.
func (im *image) fileOffset(addr uint64) (uint64, bool) {
	p := im.segment(addr)
	if p == nil || p.Off > math.MaxInt64-p.Filesz {
		return 0, false
	}
	return addr - p.Vaddr + p.Off, true
}

// code reads up to n bytes of code at addr. It returns fewer where the
// segment or the file ends.
func (im *image) code(addr uint64, n int) []byte {
	off, ok := im.fileOffset(addr)
	if !ok {
		return nil
	}
	if p := im.segment(addr); uint64(n) > p.Vaddr+p.Filesz-addr {
		n = int(p.Vaddr + p.Filesz - addr)
	}
	buf := make([]byte, n)
	got, err := im.r.ReadAt(buf, int64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return buf[:got]
}

// dynamic calls visit for each entry of the dynamic section.
func (im *image) dynamic(visit func(tag elf.DynTag, value uint64)) error {
	s := im.section(elf.SHT_DYNAMIC)
	if s == nil {
		return nil
	}
	data, err := im.table(s, maxDynamic)
	if err != nil {
		return err
	}
	for ; len(data) >= 16; data = data[16:] {
		tag := elf.DynTag(im.order.Uint64(data))
		if tag == elf.DT_NULL {
			return nil
		}
		visit(tag, im.order.Uint64(data[8:]))
	}
	return nil
}

// identity is what the dynamic section and the program headers say a file is.
type identity struct {
	soname        string
	executable    bool // a program rather than a library
	static        bool
	needsCLibrary bool // it asks for one by name
}

func (im *image) identity() (identity, error) {
	var id identity
	var sonameAt, flags1 uint64
	var needed []uint64
	err := im.dynamic(func(tag elf.DynTag, value uint64) {
		switch tag {
		case elf.DT_SONAME:
			sonameAt = value
		case elf.DT_FLAGS_1:
			flags1 = value
		case elf.DT_NEEDED:
			needed = append(needed, value)
		}
	})
	if err != nil {
		return id, err
	}
	if s := im.section(elf.SHT_DYNAMIC); s != nil && (sonameAt != 0 || len(needed) > 0) {
		if strs := im.linked(s); strs != nil {
			data, err := im.table(strs, maxTable)
			if err != nil {
				return id, err
			}
			if sonameAt != 0 {
				id.soname = stringAt(data, sonameAt)
			}
			id.needsCLibrary = slices.ContainsFunc(needed, func(at uint64) bool {
				return cLibraries.MatchString(filepath.Base(stringAt(data, at)))
			})
		}
	}
	interpreted := false
	for _, p := range im.file.Progs {
		interpreted = interpreted || p.Type == elf.PT_INTERP
	}
	pie := elf.DynFlag1(flags1)&elf.DF_1_PIE != 0 || interpreted && id.soname == ""
	id.executable = im.file.Type == elf.ET_EXEC || im.file.Type == elf.ET_DYN && pie
	id.static = id.executable && !interpreted
	return id, nil
}

// stringAt returns the string that begins at off in a string table, up to 4
// KiB of it.
func stringAt(table []byte, off uint64) string {
	if off >= uint64(len(table)) {
		return ""
	}
	s := table[off:min(uint64(len(table)), off+4096)]
	if end := bytes.IndexByte(s, 0); end >= 0 {
		s = s[:end]
	}
	return string(s)
}

// buildID returns the GNU build ID in hexadecimal, or "".
func (im *image) buildID() string {
	for _, s := range im.file.Sections {
		if s.Type != elf.SHT_NOTE || s.FileSize > maxNote {
			continue
		}
		data, err := im.table(s, maxNote)
		if err != nil {
			continue // a file without a readable build ID is still traceable
		}
		if id := debugfile.BuildID(data, im.order); id != "" {
			return id
		}
	}
	return ""
}

// builtByGo says whether the Go toolchain linked the file.
func (im *image) builtByGo() bool {
	return im.file.Section(".go.buildinfo") != nil || im.file.Section(".gopclntab") != nil
}
