package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

const (
	// A compressed section may claim any size: it is believed up to this
	// many times its compressed size (DWARF reaches some 10), and in all.
	maxRatio        = 64
	maxDecompressed = 1 << 33
)

// image is an ELF file whose sections are slices of its mapping.
type image struct {
	file     *mappedFile
	elf      *elf.File
	buildID  string
	unpacked map[string][]byte // decompressed sections, in memory of their own

	unpackedBytes int64
	paid          *int64 // of which several images pay, where not nil: those of one module's split DWARF
}

// errNotELF: code lies in a file of another kind.
var errNotELF = errors.New("not an ELF file")

// openImage reads the headers of a 64-bit little-endian ELF file. It takes
// over the caller's use of f, also where it fails.
func openImage(f *mappedFile) (img *image, err error) {
	defer func() {
		// Also where reading panics, as on a file cut short.
		if img == nil {
			files.release(f)
		}
	}()
	if !bytes.HasPrefix(f.data, []byte(elf.ELFMAG)) {
		return nil, fmt.Errorf("read ELF headers of %s: %w", f.path, errNotELF)
	}
	e, err := debugfile.ReadELF(bytes.NewReader(f.data))
	if err == nil && (e.Class != elf.ELFCLASS64 || e.Data != elf.ELFDATA2LSB) {
		err = errors.New("not a 64-bit little-endian ELF file")
	}
	if err != nil {
		return nil, fmt.Errorf("read ELF headers of %s: %w", f.path, err)
	}
	parsed := &image{file: f, elf: e, unpacked: map[string][]byte{}}
	parsed.buildID = parsed.readBuildID()
	return parsed, nil
}

// close lets go of the file and of what was decompressed from it.
func (img *image) close() {
	if img == nil {
		return
	}
	for _, data := range img.unpacked {
		_ = unix.Munmap(data)
	}
	img.unpacked = nil
	files.release(img.file)
}

// raw returns the bytes of the file from off, at most size; nil out of bounds.
func (img *image) raw(off, size uint64) []byte {
	data := img.file.data
	if off > uint64(len(data)) || size > uint64(len(data))-off {
		return nil
	}
	return data[off : off+size : off+size]
}

// section returns the content of the named section, decompressed if need be;
// nil where there is none. It is valid until close.
func (img *image) section(name string) ([]byte, error) {
	s := img.elf.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 {
		data := img.raw(s.Offset, s.FileSize)
		if data == nil && s.FileSize > 0 {
			return nil, fmt.Errorf("section %s of %s lies beyond the end of the file", name, img.file.path)
		}
		return data, nil
	}
	if data, ok := img.unpacked[name]; ok {
		return data, nil
	}
	data, err := img.unpack(s)
	if err != nil {
		return nil, fmt.Errorf("decompress section %s of %s: %w", name, img.file.path, err)
	}
	if data != nil {
		img.unpacked[name] = data
	}
	return data, nil
}

// errUnpacked: what is compressed in a file comes to more than in any honest one.
var errUnpacked = errors.New("with the file's other sections it comes to more than memtrace decompresses: it is left out")

// pay counts what a section comes to, for the file and for the images that pay together.
func (img *image) pay(size int64) error {
	limit := unpackLimit(len(img.file.data))
	if size > limit-img.unpackedBytes || img.paid != nil && size > limit-*img.paid || img.file.unpacked.Load() > maxUnpacks*limit {
		return errUnpacked
	}
	img.unpackedBytes += size
	img.file.unpacked.Add(size)
	if img.paid != nil {
		*img.paid += size
	}
	return nil
}

// unpack decompresses s into memory outside the Go heap, where hundreds of
// megabytes of DWARF don't double at the next garbage collection.
func (img *image) unpack(s *elf.Section) ([]byte, error) {
	if s.Size == 0 {
		return nil, nil
	}
	if s.Size > maxDecompressed || s.Size/maxRatio > s.FileSize {
		return nil, fmt.Errorf("%d bytes claim to be %d decompressed", s.FileSize, s.Size)
	}
	if err := img.pay(int64(s.Size)); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(-1, 0, int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(s.Open(), data); err != nil {
		_ = unix.Munmap(data)
		return nil, err
	}
	return data, nil
}

// virtualAddress turns an offset in the file into the ELF virtual address
// that is loaded from there.
func (img *image) virtualAddress(off uint64) (uint64, bool) {
	var found *elf.Prog
	for _, p := range img.elf.Progs {
		// Two segments may share a page of the file; the executable one is meant.
		if p.Type == elf.PT_LOAD && off >= p.Off && off-p.Off < p.Filesz && (found == nil || p.Flags&elf.PF_X != 0) {
			found = p
		}
	}
	if found == nil {
		return 0, false
	}
	return off - found.Off + found.Vaddr, true
}

// executable tells whether a segment of code covers the virtual address.
func (img *image) executable(vaddr uint64) bool {
	for _, p := range img.elf.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && vaddr >= p.Vaddr && vaddr-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// readBuildID finds the GNU build ID in the note sections, or, where there are
// no section headers, in the note segments.
func (img *image) readBuildID() string {
	left := maxNotes
	id := func(notes []byte) string {
		notes = notes[:min(len(notes), left)]
		left -= len(notes)
		return debugfile.BuildID(notes, binary.LittleEndian)
	}
	for _, s := range img.elf.Sections {
		if s.Type == elf.SHT_NOTE {
			if id := id(img.raw(s.Offset, s.FileSize)); id != "" {
				return id
			}
		}
	}
	for _, p := range img.elf.Progs {
		if p.Type == elf.PT_NOTE {
			if id := id(img.raw(p.Off, p.Filesz)); id != "" {
				return id
			}
		}
	}
	return ""
}

// debugLink reads .gnu_debuglink: the name of the debug file and its CRC-32.
func (img *image) debugLink() (name string, crc uint32, ok bool) {
	data, err := img.section(".gnu_debuglink")
	if err != nil {
		return "", 0, false
	}
	return debugfile.ParseLink(data[:min(len(data), maxLink)], binary.LittleEndian)
}

// hasDWARF tells whether the file itself holds debug information.
func (img *image) hasDWARF() bool {
	s := img.elf.Section(".debug_info")
	return s != nil && s.Type != elf.SHT_NOBITS && s.FileSize > 0
}

// hasSymtab tells whether the file has more symbols than the dynamic ones.
func (img *image) hasSymtab() bool {
	s := img.elf.SectionByType(elf.SHT_SYMTAB)
	return s != nil && s.FileSize > 0
}
