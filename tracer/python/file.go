package python

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// ErrUnknownVersion: an interpreter of which it is not known where it keeps its frames.
var ErrUnknownVersion = errors.New("a Python whose frames memtrace does not know how to read (it knows CPython 3.8 to 3.13, x86-64)")

// A program is what an interpreter's file says. Addresses are those of the file.
type program struct {
	minor            int
	layout           *Layout
	runtime          uint64
	code, str, bytes uint64 // type objects
	loop             []span
	segments         []segment
	freesCode        uint64 // offset in the file of the function that frees code objects; 0: not found
}

// segment is an executable one.
type segment struct{ offset, address, size uint64 }

// runtimeSizes are those of _PyRuntime, by which the versions are told that don't have Py_Version.
var runtimeSizes = map[uint64]int{1464: 8, 656: 9, 672: 10}

// readProgram reads an interpreter's file. It returns nil without an error where it is none.
func readProgram(r io.ReaderAt) (*program, error) {
	f, err := debugfile.ReadELF(r)
	if err != nil || f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return nil, err
	}
	symbols := make(map[string]elf.Symbol)
	for _, s := range debugfile.FindSymbols(f, "_PyRuntime", "Py_Version", "PyCode_Type", "PyUnicode_Type", "PyBytes_Type", "_PyEval_EvalFrameDefault") {
		if _, ok := symbols[s.Name]; !ok && s.Section != elf.SHN_UNDEF {
			symbols[s.Name] = s
		}
	}
	runtime, ok := symbols["_PyRuntime"]
	if !ok {
		return nil, nil
	}
	b := &program{runtime: runtime.Value, code: symbols["PyCode_Type"].Value, str: symbols["PyUnicode_Type"].Value, bytes: symbols["PyBytes_Type"].Value}
	b.minor = minorOf(r, f, symbols["Py_Version"], runtime.Size)
	b.layout = layouts[b.minor]
	loop := symbols["_PyEval_EvalFrameDefault"]
	if b.layout == nil || b.code == 0 || b.str == 0 || b.bytes == 0 || loop.Value == 0 || loop.Size == 0 || loop.Size > maxLoop {
		return nil, ErrUnknownVersion
	}
	if b.minor >= 13 && !b.saysSo(r, f) {
		return nil, ErrUnknownVersion
	}
	b.loop = loopSpans(r, f, span{loop.Value, loop.Value + loop.Size})
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			b.segments = append(b.segments, segment{p.Off, p.Vaddr, p.Filesz})
		}
	}
	b.freesCode = b.offsetOf(freesCode(r, f, b.code))
	return b, nil
}

// saysSo reports whether the interpreter itself describes its structures as the Layout does.
func (b *program) saysSo(r io.ReaderAt, f *elf.File) bool {
	var data [8 * debugWords]byte
	if !readAddress(r, f, b.runtime, data[:]) || string(data[:8]) != debugCookie {
		return false
	}
	words := make([]uint64, debugWords)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	return b.layout.agrees(words)
}

// minorOf returns the version of an interpreter: 3.minor; 0: not known.
func minorOf(r io.ReaderAt, f *elf.File, version elf.Symbol, runtimeSize uint64) int {
	if version.Value != 0 {
		var b [8]byte
		if !readAddress(r, f, version.Value, b[:4]) {
			return 0
		}
		if hex := binary.LittleEndian.Uint32(b[:]); hex>>24 == 3 { // PY_VERSION_HEX
			return int(hex >> 16 & 255)
		}
		return 0
	}
	minor := runtimeSizes[runtimeSize]
	if minor == 0 || !hasConstant(f, fmt.Sprintf("3.%d\x00", minor)) {
		return 0
	}
	return minor
}

// maxConstants bounds the constants that are searched.
const maxConstants = 32 << 20

// hasConstant reports whether a file's constants have a string.
func hasConstant(f *elf.File, text string) bool {
	s := f.Section(".rodata")
	if s == nil || s.Type == elf.SHT_NOBITS || s.FileSize > maxConstants {
		return false
	}
	data, err := s.Data()
	return err == nil && bytes.Contains(data, []byte(text))
}

// readAddress reads what a file has for an address.
func readAddress(r io.ReaderAt, f *elf.File, addr uint64, b []byte) bool {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz || uint64(len(b)) > p.Filesz-(addr-p.Vaddr) || p.Off > math.MaxInt64-p.Filesz {
			continue
		}
		_, err := r.ReadAt(b, int64(p.Off+addr-p.Vaddr))
		return err == nil
	}
	return false
}

// offsetOf returns where the file has the code at an address; 0: nowhere.
func (b *program) offsetOf(addr uint64) uint64 {
	for _, s := range b.segments {
		if addr >= s.address && addr-s.address < s.size {
			return s.offset + addr - s.address
		}
	}
	return 0
}

// bias is what is to be added to the file's addresses where its offset is mapped at start; false: no code of it is.
func (b *program) bias(start, offset uint64) (uint64, bool) {
	const page = 4096
	for _, s := range b.segments {
		if s.offset&^(page-1) == offset {
			return start - s.address&^(page-1), true
		}
	}
	return 0, false
}
