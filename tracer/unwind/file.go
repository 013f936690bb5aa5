package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// ErrNoTables means that a file has no call frame information.
var ErrNoTables = errors.New("no call frame information")

// File is what unwinding needs of an ELF file.
type File struct {
	Segments []Segment
	Source   int // bytes of call frame information that the tables come from
	Bad      int // entries that were left out: malformed, or of an unknown kind
	Lost     int // rows whose rules are more than is taken from one file
}

// Segment is an executable segment (PT_LOAD) of a file, or a part of one: where
// much code in a row has no call frame information, a table ends before it and
// the next one begins after it.
type Segment struct {
	Offset, Size uint64 // in the file
	Address      uint64 // at which it is linked
	Table        *Table // nil where no function of it has rows
}

// Source is the call frame information of an ELF file, and all else that its
// tables are made from.
type Source struct {
	machine  *machine
	segments []Segment
	sections []*section
	restorer uint64 // address of the code that signal handlers return to, where that has no row; 0: none
	start    muslStart
	switches []Range // code of Go's runtime that runs on another stack than its caller
}

// Open reads the call frame information of an ELF file. A file without any is
// no error; one that is no ELF file has none (ErrNoTables).
func Open(r io.ReaderAt) (*Source, error) {
	var magic [len(elf.ELFMAG)]byte
	if _, err := r.ReadAt(magic[:], 0); err == nil && string(magic[:]) != elf.ELFMAG {
		return nil, ErrNoTables
	}
	e, err := debugfile.ReadELF(r)
	if err != nil {
		return nil, fmt.Errorf("read ELF headers: %w", err)
	}
	s := &Source{machine: machines[e.Machine], segments: codeSegments(e)}
	if s.machine == nil || e.Class != elf.ELFCLASS64 || e.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("tables for %v, %v: not supported", e.Machine, e.Class)
	}
	if s.sections, err = frameSections(r, e, s.machine); err != nil {
		return nil, err
	}
	if s.machine.raSaved < 0 {
		s.switches = findSwitches(e)
	}
	if debugfile.Needed(e) == 0 { // a C library, static, or the vDSO
		s.restorer = s.findRestorer(e)
		if s.machine.raSaved < 0 {
			s.start = findMuslStart(e)
		}
	}
	return s, nil
}

// codeSegments returns the executable segments of a file. One that overlaps another one before it, or wraps, is none.
func codeSegments(e *elf.File) (out []Segment) {
	for _, p := range e.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || len(out) == maxSegments {
			continue
		}
		s := Segment{Offset: p.Off, Size: p.Filesz, Address: p.Vaddr}
		if s.Offset+s.Size < s.Offset || s.Address+s.Size < s.Address || slices.ContainsFunc(out, s.overlaps) {
			continue
		}
		out = append(out, s)
	}
	return out
}

// overlaps reports whether two segments share bytes of the file, or addresses.
func (s Segment) overlaps(o Segment) bool {
	return s.Offset < o.Offset+o.Size && o.Offset < s.Offset+s.Size ||
		s.Address < o.Address+o.Size && o.Address < s.Address+s.Size
}

// Bytes is the size of the call frame information.
func (s *Source) Bytes() int {
	n := 0
	for _, section := range s.sections {
		n += len(section.data)
	}
	return n
}

// Build makes the tables. The error wraps ErrNoTables where there are none.
func (s *Source) Build() (*File, error) {
	out := &File{Segments: slices.Clone(s.segments), Source: s.Bytes()}
	limits := make([]Range, 0, len(s.segments))
	for _, segment := range s.segments {
		limits = append(limits, Range{segment.Address, segment.Address + segment.Size})
	}
	all := newRows(s.machine, limits)
	for _, section := range s.sections {
		all.add(section)
	}
	if err := all.err(); err != nil {
		return nil, err
	}
	if _, known := all.index[Rule{Kind: Signal}]; !known && s.restorer != 0 {
		all.addRestorer(s.restorer)
	}
	if s.start.from != 0 {
		all.addMuslStart(s.start)
	}
	all.addSwitches(s.switches)
	if err := errors.Join(all.err(), out.split(all)); err != nil {
		return nil, err
	}
	out.Bad, out.Lost = all.bad, all.lost
	if all.cost > largeBuild {
		all = nil
		debug.FreeOSMemory() // the heap would else grow to twice as much before it is looked at
	}
	return out, nil
}

// Read is Open and Build.
func Read(r io.ReaderAt) (*File, error) {
	s, err := Open(r)
	if err != nil {
		return nil, err
	}
	return s.Build()
}

// frameSections finds .eh_frame, by its name or through the program header
// that leads to it, and .debug_frame.
func frameSections(r io.ReaderAt, e *elf.File, m *machine) ([]*section, error) {
	var out []*section
	hdr := uint64(0)
	for _, p := range e.Progs {
		if p.Type == elf.PT_GNU_EH_FRAME {
			hdr = p.Vaddr
		}
	}
	left := uint64(maxSection)
	for _, name := range []string{".eh_frame", ".debug_frame"} {
		s := e.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size > left {
			return nil, fmt.Errorf("%w: %s has %d bytes, of %d in all", ErrTooMuch, name, s.Size, maxSection)
		}
		left -= s.Size
		data, err := sectionData(r, s)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, &section{data: data, address: s.Addr, hdr: hdr, debug: name == ".debug_frame", machine: m})
	}
	if hdr != 0 && (len(out) == 0 || out[0].debug) {
		s, err := frameByHeader(e, m, hdr, left)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = slices.Insert(out, 0, s)
		}
	}
	return out, nil
}

// sectionData reads a section. Memory is taken only for as much as the file has.
func sectionData(r io.ReaderAt, s *elf.Section) ([]byte, error) {
	if s.Size == 0 {
		return nil, nil
	}
	if s.Size/maxRatio > s.FileSize {
		return nil, fmt.Errorf("%w: %d bytes are compressed into %d", ErrTooMuch, s.Size, s.FileSize)
	}
	var last [1]byte
	if n, err := r.ReadAt(last[:], int64(s.Offset+s.FileSize)-1); n == 0 {
		return nil, err
	}
	data := make([]byte, s.Size)
	_, err := io.ReadFull(s.Open(), data)
	return data, err
}

// frameByHeader finds .eh_frame through .eh_frame_hdr, for files without
// section headers. Its end isn't known: it has a terminator.
func frameByHeader(e *elf.File, m *machine, hdr, limit uint64) (*section, error) {
	head := loaded(e, hdr, 16)
	if len(head) < 16 || head[0] != 1 || head[1] == peOmit {
		return nil, nil
	}
	c := cursor{data: head, at: 4}
	at := c.pointer(head[1], hdr, hdr)
	if c.err != nil || head[1]&peIndir != 0 {
		return nil, nil
	}
	n := frameSize(loadedReader(e, at, maxFile))
	if n > limit {
		return nil, fmt.Errorf("%w: .eh_frame has more than %d bytes", ErrTooMuch, limit)
	}
	data := loaded(e, at, n)
	if data == nil {
		return nil, nil
	}
	return &section{data: data, address: at, hdr: hdr, machine: m}, nil
}

// frameSize is the size of .eh_frame up to its terminator; the segment's where it has none.
func frameSize(r *io.SectionReader) (n uint64) {
	entries := bufio.NewReaderSize(r, 64<<10)
	for n <= maxSection {
		head, err := entries.Peek(4)
		if err != nil {
			return n + uint64(len(head))
		}
		size := 4 + uint64(binary.LittleEndian.Uint32(head))
		if size == 4+0xffffffff { // in eight bytes
			if head, err = entries.Peek(12); err != nil {
				return n + uint64(len(head))
			}
			size = 12 + min(binary.LittleEndian.Uint64(head[4:]), maxFile)
		}
		skipped, err := entries.Discard(int(min(size, maxSection)))
		n += uint64(skipped)
		if err != nil || size == 4 {
			return n
		}
	}
	return n
}

// maxFile bounds offsets in a file.
const maxFile = 1 << 62

// loadedReader is up to n bytes of the segment that holds address; of none where there is no such segment.
func loadedReader(e *elf.File, address, n uint64) *io.SectionReader {
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			at := address - p.Vaddr
			return io.NewSectionReader(p, int64(at), int64(min(n, p.Filesz-at, maxFile)))
		}
	}
	return io.NewSectionReader(bytes.NewReader(nil), 0, 0)
}

// loaded reads up to n bytes of the segment that holds address.
func loaded(e *elf.File, address, n uint64) []byte {
	r := loadedReader(e, address, n)
	data := make([]byte, r.Size())
	read, err := io.ReadFull(r, data)
	if read == 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return data[:read]
}

// maxRestorerText bounds the search for a signal restorer: a C library's size, in each of a file's first segments.
const (
	maxRestorerText     = 4 << 20
	maxRestorerSegments = 4
)

// findRestorer finds the code that signal handlers return to by its bytes, as
// debuggers do: musl has no call frame information for it, and neither has the
// vDSO for AArch64 (arch/arm64/kernel/vdso/sigreturn.S says why).
func (s *Source) findRestorer(e *elf.File) uint64 {
	for _, segment := range s.segments[:min(len(s.segments), maxRestorerSegments)] {
		if segment.Size > maxRestorerText {
			continue
		}
		if i := bytes.Index(loaded(e, segment.Address, maxRestorerText), s.machine.restorer); i > 0 {
			return segment.Address + uint64(i)
		}
	}
	return 0
}

// addRestorer adds the restorer's row.
func (r *rows) addRestorer(at uint64) {
	// From the byte before: return addresses are looked up less one.
	r.whole(at-1, at+uint64(len(r.machine.restorer)), Rule{Kind: Signal})
}
