package unwind

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

// hostile is an ELF file that is made to cost more than it may.
type hostile struct {
	progs    []elf.Prog64
	sections []hostileSection
	names    []byte // of the sections; nil: those of sections
	shnum    uint64 // in place of the true number
	phentsz  uint16
}

type hostileSection struct {
	name string
	elf.Section64
	data []byte
}

// code is a segment of code of 16 MiB at the file's beginning.
func code() []elf.Prog64 {
	return []elf.Prog64{{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X | elf.PF_R), Filesz: 1 << 24, Memsz: 1 << 24}}
}

func (h hostile) bytes(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	names := []byte("\x00.shstrtab\x00")
	list := []elf.Section64{{}, {Name: 1, Type: uint32(elf.SHT_STRTAB)}}
	at := uint64(64 + 56*len(h.progs) + 64*(2+len(h.sections)))
	for _, s := range h.sections {
		s.Section64.Name, s.Off = uint32(len(names)), at
		if s.Section64.Size == 0 {
			s.Section64.Size = uint64(len(s.data))
		}
		names, list, at = append(names, s.name+"\x00"...), append(list, s.Section64), at+uint64(len(s.data))
	}
	if h.names != nil {
		names = h.names
	}
	list[1].Off, list[1].Size = at, uint64(len(names))
	head := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: uint64(64 + 56*len(h.progs)), Ehsize: 64,
		Phentsize: 56, Phnum: uint16(len(h.progs)), Shentsize: 64, Shnum: uint16(len(list)), Shstrndx: 1,
	}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	if h.shnum != 0 {
		head.Shnum, list[0].Size = 0, h.shnum
	}
	if h.phentsz != 0 {
		head.Phentsize = h.phentsz
	}
	write(head)
	write(h.progs)
	write(list)
	for _, s := range h.sections {
		out.Write(s.data)
	}
	out.Write(names)
	return out.Bytes()
}

// frames are call frame information: a CIE at its beginning, and what is made of it.
type frames struct{ bytes.Buffer }

func newFrames() *frames {
	f := &frames{}
	f.entry(0, []byte("\x01\x00\x01\x78\x10\x0c\x07\x08\x90\x01"))
	return f
}

func (f *frames) entry(id uint32, body []byte) {
	f.Write(binary.LittleEndian.AppendUint32(nil, uint32(4+len(body))))
	f.Write(binary.LittleEndian.AppendUint32(nil, id))
	f.Write(body)
}

// function adds a function whose CIE is at the beginning.
func (f *frames) function(start, size uint64, instructions []byte) {
	le := binary.LittleEndian
	f.entry(uint32(f.Len()+4), append(le.AppendUint64(le.AppendUint64(nil, start), size), instructions...))
}

func ehFrame(data []byte) hostileSection { return hostileSection{name: ".eh_frame", data: data} }

func compressed(t *testing.T, data []byte) hostileSection {
	t.Helper()
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(len(data)), Addralign: 1}); err != nil {
		t.Fatal(err)
	}
	z := zlib.NewWriter(&out)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return hostileSection{name: ".debug_frame", data: out.Bytes(), Section64: elf.Section64{Flags: uint64(elf.SHF_COMPRESSED)}}
}

// changing is n rows, in three bytes each or a little more, whose rules come again after a while.
func changing(n, rules int) (out []byte) {
	for i := range n {
		out = append(binary.AppendUvarint(append(out, cfaDefCFAOffset), uint64(16+8*(i%rules))), cfaAdvanceLoc|1)
	}
	return out
}

func hostileFiles(t *testing.T) map[string]hostile {
	one := func(f *frames) hostile { return hostile{progs: code(), sections: []hostileSection{ehFrame(f.Bytes())}} }
	same, differ, rules, tiny, nowhere, unread := newFrames(), newFrames(), newFrames(), newFrames(), newFrames(), newFrames()
	same.function(0x1000, 1<<20, bytes.Repeat([]byte{cfaAdvanceLoc}, 1<<20))
	differ.function(0x1000, 1<<20, changing(1<<18, 60))
	rules.function(0x1000, 1<<20, changing(40000, 40000))
	for i := range uint64(20000) {
		tiny.function(0x1000+i, 1, nil)
		nowhere.entry(uint32(i), nil)
		unread.function(0x1000+i, 1, []byte{cfaAdvanceLoc, 0x3f})
	}
	var named hostile
	for range 2000 {
		named.sections = append(named.sections, hostileSection{})
	}
	named.names = append(bytes.Repeat([]byte{'n'}, 500<<10), 0)
	symbols := hostile{progs: code(), sections: []hostileSection{
		{name: ".symtab", data: bytes.Repeat([]byte("\x00\x00\x00\x00\x12\x00\x01\x00\x00\x10\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"), 20000),
			Section64: elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 3, Entsize: 24}},
		{name: ".strtab", data: append([]byte("runtime.asmcgocall\x00"), bytes.Repeat([]byte{'x'}, 1<<20)...), Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB)}},
		{name: ".go.buildinfo"},
	}}
	restorers := hostile{progs: make([]elf.Prog64, 10_000)}
	for i := range restorers.progs {
		restorers.progs[i] = code()[0]
		restorers.progs[i].Filesz = maxRestorerText
	}
	segments := one(differ)
	for i := range uint64(3000) {
		segments.progs = append(segments.progs, code()...)
		segments.progs[i].Filesz -= i
	}
	return map[string]hostile{
		"a row a byte":                    one(same),
		"rows that differ":                one(differ),
		"rules that differ":               one(rules),
		"functions of nothing":            one(tiny),
		"functions of no CIE":             one(nowhere),
		"functions that can't be read":    one(unread),
		"CIEs that overlap":               one(overlappingCIEs(2000, 64<<10)),
		"one name for all sections":       named,
		"a table of sections without end": {progs: code(), shnum: 1 << 40},
		"large headers of segments":       {progs: code(), phentsz: 65535},
		"a section that isn't there":      {progs: code(), sections: []hostileSection{{name: ".eh_frame", Section64: elf.Section64{Size: 60 << 20}}}},
		"compressed to a thousandth":      {progs: code(), sections: []hostileSection{compressed(t, make([]byte, 40<<20))}},
		"segments to search":              restorers,
		"symbols of one name":             symbols,
		"segments that overlap":           segments,
	}
}

// overlappingCIEs has a CIE each 16 bytes, each with size bytes of instructions, and a function for each.
func overlappingCIEs(n, size int) *frames {
	le := binary.LittleEndian
	head := append(le.AppendUint32(le.AppendUint32(nil, uint32(size)), 0), "\x01\x00\x01\x78\x10\x00\x00\x00"...)
	area := bytes.Repeat(head, 2*size/16)
	area = area[:size+4]
	area = append(area, le.AppendUint32(nil, uint32(size))...)
	area = append(area, bytes.Repeat(head, size/16+1)[:size]...)
	f := &frames{}
	f.Write(area)
	for i := range n {
		f.entry(uint32(f.Len()+4-16*i), le.AppendUint64(le.AppendUint64(nil, uint64(0x1000+i)), 1))
	}
	return f
}

// A file costs no more than some times its size, whatever it says.
func TestHostileFilesAreBounded(t *testing.T) {
	for name, h := range hostileFiles(t) {
		data := h.bytes(t)
		var file *File
		var err error
		took := elftest.Allocated(func() { file, err = Read(bytes.NewReader(data)) })
		t.Logf("%s: %d bytes of memory for %d of the file: %v", name, took, len(data), err)
		if limit := uint64(4<<20 + 40*len(data)); took > limit {
			t.Errorf("%s: %d bytes of memory for a file of %d", name, took, len(data))
		}
		if file == nil {
			continue
		}
		if len(file.Segments) > maxSegments {
			t.Errorf("%s: %d segments", name, len(file.Segments))
		}
	}
}

// What is too much is said: the file has no tables, and not half of them.
func TestLimitsAreSaid(t *testing.T) {
	f := newFrames()
	f.function(0x1000, 1<<24-0x2000, changing(maxBuild/rowCost+1, 50))
	still := newFrames()
	still.function(0x1000, 16, bytes.Repeat([]byte{cfaDefCFAOffset, 16, cfaAdvanceLoc}, maxSteps+1))
	large := make([]byte, maxSection+1)
	for name, h := range map[string]hostile{
		"rows":        {progs: code(), sections: []hostileSection{ehFrame(f.Bytes())}},
		"steps":       {progs: code(), sections: []hostileSection{ehFrame(still.Bytes())}},
		"compressed":  {progs: code(), sections: []hostileSection{compressed(t, make([]byte, 1<<20))}},
		"bytes":       {progs: code(), sections: []hostileSection{ehFrame(large)}},
		"two of them": {progs: code(), sections: []hostileSection{ehFrame(large[:maxSection/2+1]), {name: ".debug_frame", data: large[:maxSection/2]}}},
	} {
		if file, err := Read(bytes.NewReader(h.bytes(t))); !errors.Is(err, ErrTooMuch) || file != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// CIEs are read once each, and no more of them than the section has bytes.
func TestOverlappingCIEsAreReadOnce(t *testing.T) {
	f := overlappingCIEs(500, 16<<10)
	s := &section{data: f.Bytes(), machine: machines[elf.EM_X86_64]}
	seen := 0
	bad := s.each(func(*fde) bool { seen++; return true })
	read := 0
	for lead := range s.leads {
		read += len(lead.text)
	}
	if read > len(s.data) || seen == 0 || bad < 400 {
		t.Errorf("%d bytes of CIEs of a section of %d; %d functions, %d bad", read, len(s.data), seen, bad)
	}
}

// A file has its first rules, and says that it lost others.
func TestRulesOfAFileAreBounded(t *testing.T) {
	f := newFrames()
	f.function(0x1000, 1<<20, changing(40000, 40000))
	file, err := Read(bytes.NewReader(hostile{progs: code(), sections: []hostileSection{ehFrame(f.Bytes())}}.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[Rule]bool{}
	file.Segments[0].Table.Encode(1, func(r Rule) uint32 { rules[r] = true; return 1 })
	if len(rules) != maxRules || file.Lost == 0 || file.Bad != 0 {
		t.Errorf("%d rules, %d rows lost, %d bad", len(rules), file.Lost, file.Bad)
	}
}

// Rows that go backwards, states that are remembered without end, and numbers without end make no rows.
func TestEntriesThatAreRefused(t *testing.T) {
	long := strings.Repeat("\x80", 40) + "\x00"
	for name, instructions := range map[string]string{
		"backwards":           "\x41\x0e\x10\x01\x00\x10\x00\x00\x00\x00\x00\x00\x0e\x18",
		"remembered":          strings.Repeat("\x0a", maxRemembered+1),
		"none is remembered":  "\x0b",
		"a number":            "\x0e" + long,
		"an expression's end": "\x0f\x08\x77",
	} {
		f := newFrames()
		f.function(0x1000, 0x1000, []byte(instructions))
		f.function(0x3000, 0x1000, []byte("\x44\x0e\x10"))
		all := newRows(machines[elf.EM_X86_64], []Range{{0, 1 << 20}})
		all.add(&section{data: f.Bytes(), machine: all.machine})
		list := all.merged()
		if all.bad != 1 || len(list) != 3 || list[0].at != 0x3000 {
			t.Errorf("%s: %d bad, rows %v", name, all.bad, list)
		}
	}
	c := cursor{data: []byte("\x77" + long)}
	if c.breg(); !errors.Is(c.err, errLong) {
		t.Errorf("an expression of %d bytes: %v", len(long), c.err)
	}
}

// Of segments that share addresses or bytes of the file the first counts; one that wraps is none.
func TestOverlappingSegments(t *testing.T) {
	h := hostile{progs: code(), sections: []hostileSection{ehFrame(nil)}}
	add := func(offset, address, size uint64) {
		p := code()[0]
		p.Off, p.Vaddr, p.Filesz = offset, address, size
		h.progs = append(h.progs, p)
	}
	add(1<<24, 1<<20, 0x1000)          // addresses of the first one
	add(1<<20, 1<<30, 0x1000)          // bytes of the first one
	add(1<<24, ^uint64(0)-0xff, 1<<12) // wraps
	add(1<<24, 1<<24, 0x1000)          // neither
	s, err := Open(bytes.NewReader(h.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.segments) != 2 || s.segments[1].Address != 1<<24 {
		t.Errorf("segments %+v", s.segments)
	}
}

// The end of .eh_frame is found without reading what follows it.
func TestFrameSize(t *testing.T) {
	f := newFrames()
	f.function(0x1000, 16, nil)
	n := f.Len() + 4
	f.Write(make([]byte, 4+1000))
	for data, want := range map[string]int{
		f.String():                n,
		f.String()[:n-6]:          n - 6,
		"\xff\xff\xff\xff" + "ab": 6,
		"":                        0,
	} {
		if got := frameSize(io.NewSectionReader(strings.NewReader(data), 0, int64(len(data)))); got != uint64(want) {
			t.Errorf("%d bytes of %d, want %d", got, len(data), want)
		}
	}
}
