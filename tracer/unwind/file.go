package unwind

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Limits on what a file may make us hold.
const (
	maxSection = 1 << 30 // of call frame information, uncompressed
	maxText    = 2 << 30 // from a segment's first function to its last
)

// ErrNoTables means that a file has no call frame information.
var ErrNoTables = errors.New("no call frame information")

// File is what unwinding needs of an ELF file.
type File struct {
	Segments []Segment
	Source   int // bytes of call frame information that the tables come from
	Bad      int // entries that were left out: malformed, or of an unknown kind
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
	e, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read ELF headers: %w", err)
	}
	s := &Source{machine: machines[e.Machine]}
	if s.machine == nil || e.Class != elf.ELFCLASS64 || e.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("tables for %v, %v: not supported", e.Machine, e.Class)
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			s.segments = append(s.segments, Segment{Offset: p.Off, Size: p.Filesz, Address: p.Vaddr})
		}
	}
	if s.sections, err = frameSections(e, s.machine); err != nil {
		return nil, err
	}
	if s.machine.raSaved < 0 {
		s.switches = findSwitches(e)
	}
	if needed, err := e.ImportedLibraries(); err != nil || len(needed) == 0 { // a C library, static, or the vDSO
		s.restorer = findRestorer(e, s.machine.restorer)
		if s.machine.raSaved < 0 {
			s.start = findMuslStart(e)
		}
	}
	return s, nil
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
	if _, known := all.index[Rule{Kind: Signal}]; !known && s.restorer != 0 {
		all.addRestorer(s.restorer)
	}
	if s.start.from != 0 {
		all.addMuslStart(s.start)
	}
	all.addSwitches(s.switches)
	out.Bad = all.bad
	return out, out.split(all)
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
func frameSections(e *elf.File, m *machine) ([]*section, error) {
	var out []*section
	hdr := uint64(0)
	for _, p := range e.Progs {
		if p.Type == elf.PT_GNU_EH_FRAME {
			hdr = p.Vaddr
		}
	}
	for _, name := range []string{".eh_frame", ".debug_frame"} {
		s := e.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size > maxSection {
			return nil, fmt.Errorf("%s has %d bytes, more than %d", name, s.Size, maxSection)
		}
		data, err := s.Data()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, &section{data: data, address: s.Addr, hdr: hdr, debug: name == ".debug_frame", machine: m})
	}
	if hdr != 0 && (len(out) == 0 || out[0].debug) {
		if s := frameByHeader(e, m, hdr); s != nil {
			out = slices.Insert(out, 0, s)
		}
	}
	return out, nil
}

// frameByHeader finds .eh_frame through .eh_frame_hdr, for files without
// section headers. Its end isn't known: it has a terminator.
func frameByHeader(e *elf.File, m *machine, hdr uint64) *section {
	head := loaded(e, hdr, 16)
	if len(head) < 16 || head[0] != 1 || head[1] == peOmit {
		return nil
	}
	c := cursor{data: head, at: 4}
	at := c.pointer(head[1], hdr, hdr)
	if c.err != nil || head[1]&peIndir != 0 {
		return nil
	}
	data := loaded(e, at, maxSection)
	if data == nil {
		return nil
	}
	return &section{data: data, address: at, hdr: hdr, machine: m}
}

// loaded reads up to n bytes of the segment that holds address.
func loaded(e *elf.File, address, n uint64) []byte {
	for _, p := range e.Progs {
		if p.Type != elf.PT_LOAD || address < p.Vaddr || address-p.Vaddr >= p.Filesz {
			continue
		}
		at := address - p.Vaddr
		var b bytes.Buffer
		if _, err := io.Copy(&b, io.NewSectionReader(p, int64(at), int64(min(n, p.Filesz-at)))); err != nil {
			return nil
		}
		return b.Bytes()
	}
	return nil
}

// maxRestorerText bounds the search for a signal restorer: a C library's size.
const maxRestorerText = 4 << 20

// findRestorer finds the code that signal handlers return to by its bytes, as
// debuggers do: musl has no call frame information for it, and neither has the
// vDSO for AArch64 (arch/arm64/kernel/vdso/sigreturn.S says why).
func findRestorer(e *elf.File, restorer []byte) uint64 {
	for _, p := range e.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || p.Filesz > maxRestorerText {
			continue
		}
		if i := bytes.Index(loaded(e, p.Vaddr, maxRestorerText), restorer); i > 0 {
			return p.Vaddr + uint64(i)
		}
	}
	return 0
}

// addRestorer adds the restorer's row.
func (r *rows) addRestorer(at uint64) {
	from := len(r.list)
	// From the byte before: return addresses are looked up less one.
	r.list = append(r.list, row{at - 1, r.number(Rule{Kind: Signal})})
	r.spans = append(r.spans, span{at - 1, at + uint64(len(r.machine.restorer)), from, from + 1})
}

// maxNotes bounds what is read in search of a build ID.
const maxNotes = 64 << 10

// BuildID returns the build ID of an ELF file in hexadecimal, "" where it has none.
func BuildID(r io.ReaderAt) string {
	e, err := elf.NewFile(r)
	if err != nil {
		return ""
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			continue
		}
		if id := buildIDNote(data); id != "" {
			return id
		}
	}
	return ""
}

// buildIDNote finds NT_GNU_BUILD_ID among notes.
func buildIDNote(data []byte) string {
	c := cursor{data: data}
	for !c.done() {
		nameSize, descSize, kind := c.u32(), c.u32(), c.u32()
		name, _ := c.take(int(nameSize)), c.take(int(-nameSize&3))
		desc := c.take(int(descSize))
		if c.err == nil && kind == 3 && string(name) == "GNU\x00" {
			return fmt.Sprintf("%x", desc)
		}
		c.take(int(-descSize & 3))
	}
	return ""
}
