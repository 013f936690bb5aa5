package python

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
)

// Bounds of what is read of one code object.
const (
	maxText  = 1 << 10 // characters of a name or path
	maxLines = 1 << 20 // bytes of a table of lines
	// maxCodes and maxTables bound what is kept of one process; beyond them all is read again when it is met.
	maxCodes  = 1 << 16
	maxTables = 16 << 20 // bytes of tables of lines, and of names and paths
)

// A reader fills b with what a process has at addr.
type reader func(addr uint64, b []byte) error

// Types are the addresses of type objects in a process.
type Types struct{ Code, Str, Bytes uint64 }

// An Image is the interpreter in a process, and what is known of its code objects.
type Image struct {
	Minor   int // version: 3.Minor
	Layout  *Layout
	Runtime uint64 // address of _PyRuntime
	Types   Types
	Module  string // path of the interpreter's file
	// FreesCode is where the file has the function that frees code objects: an offset; 0: it was not found.
	FreesCode uint64
	loop      []span // addresses of the evaluation loop

	read  reader
	mu    sync.Mutex
	codes map[codeKey]*code
	kept  int // bytes of what codes have
}

type span struct{ from, to uint64 }

// codeKey tells code objects apart, those that have one address one after the other, too.
type codeKey struct {
	code, lines, others uint64
	first               int32
}

type code struct {
	function, file string
	lines          []byte
	traceable      int32 // where the program's own code begins, in bytes
}

// InLoop reports whether a return address lies in the evaluation loop.
func (im *Image) InLoop(ret uint64) bool {
	for _, s := range im.loop {
		if ret-1 >= s.from && ret-1 < s.to {
			return true
		}
	}
	return false
}

// ownedByGenerator is FRAME_OWNED_BY_GENERATOR of CPython's pycore_frame.h.
const ownedByGenerator = 1

// Name returns what a frame is called. Where its code object is not known yet it is read now, while it is there.
// shown is false of a frame that the interpreter does not show either, as it is being made.
func (im *Image) Name(f *Frame) (name Name, shown bool) {
	c := im.codeOf(codeKey{f.Code, f.Lines, f.Others, f.FirstLine})
	if c == nil {
		return Name{Function: Unknown, Module: im.Module}, true
	}
	if im.Layout.Traceable != 0 && f.At < c.traceable && f.Owner != ownedByGenerator {
		return Name{}, false
	}
	at := f.At
	if at > 0 {
		at *= im.Layout.Step
	}
	return Name{Function: c.function, File: c.file, Line: lineOf(im.Minor, c.lines, f.FirstLine, at), Module: im.Module}, true
}

func (im *Image) codeOf(key codeKey) *code {
	im.mu.Lock()
	defer im.mu.Unlock()
	if c := im.codes[key]; c != nil {
		return c
	}
	c, err := im.readCode(key)
	if err != nil {
		return nil
	}
	if im.codes == nil || len(im.codes) >= maxCodes || im.kept > maxTables {
		im.codes, im.kept = make(map[codeKey]*code), 0
	}
	im.codes[key] = c
	im.kept += len(c.lines) + len(c.function) + len(c.file)
	return c
}

// Fork is the Image of a process's child, which has all that its parent had.
func (im *Image) Fork(read reader) *Image {
	im.mu.Lock()
	defer im.mu.Unlock()
	child := &Image{Minor: im.Minor, Layout: im.Layout, Runtime: im.Runtime, Types: im.Types, Module: im.Module, FreesCode: im.FreesCode, loop: im.loop, read: read, kept: im.kept}
	child.codes = make(map[codeKey]*code, len(im.codes))
	for k, c := range im.codes {
		child.codes[k] = c
	}
	return child
}

// instructionBytes is how long an instruction's unit is, from 3.6 on.
const instructionBytes = 2

// errOther: what is there is not what it was.
var errOther = errors.New("another object, or none, by now")

// readCode reads a code object, and looks afterwards whether it was there all the time.
func (im *Image) readCode(key codeKey) (*code, error) {
	l := im.Layout
	head := make([]byte, max(l.Lines, l.Name, l.FileName, l.Traceable, l.Version)+8)
	if err := im.isCode(key, head); err != nil {
		return nil, err
	}
	function, err := im.text(binary.LittleEndian.Uint64(head[l.Name:]))
	if err != nil {
		return nil, err
	}
	file, err := im.text(binary.LittleEndian.Uint64(head[l.FileName:]))
	if err != nil {
		return nil, err
	}
	lines, err := im.bytes(key.lines)
	if err != nil {
		return nil, err
	}
	c := &code{function: function, file: file, lines: lines}
	if l.Traceable != 0 {
		c.traceable = int32(min(binary.LittleEndian.Uint32(head[l.Traceable:]), maxLines)) * instructionBytes
	}
	return c, im.isCode(key, head)
}

// isCode reads the head of a code object and checks that it is the one.
func (im *Image) isCode(key codeKey, head []byte) error {
	if err := im.read(key.code, head); err != nil {
		return err
	}
	le := binary.LittleEndian
	if !isAlive(le.Uint64(head)) || le.Uint64(head[8:]) != im.Types.Code || im.Layout.others(head) != key.others || le.Uint64(head[im.Layout.Lines:]) != key.lines || int32(le.Uint32(head[im.Layout.FirstLine:])) != key.first {
		return errOther
	}
	return nil
}

// isAlive reports whether an object has references, by its count of them. What is freed has none, or has a pointer of the allocator's in its place,
// while the rest may still be as it was. What is never freed, as the code of frozen modules, has a count of its own: from 3.12 on it stays, and in 3.11
// references are added to it (CPython's _Py_IMMORTAL_REFCNT and _PyObject_IMMORTAL_REFCNT).
func isAlive(references uint64) bool {
	const most, immortal, frozen = 1 << 20, 1<<32 - 1, 999_999_999
	return references > 0 && references < most || references == immortal || references > frozen-most && references < frozen+most
}

// others is what Frame.Others is of a code object that begins with head: as read_code of bpf/headers/python.h has it.
func (l *Layout) others(head []byte) uint64 {
	le := binary.LittleEndian
	out := le.Uint64(head[l.FileName:]) ^ le.Uint64(head[l.Name:])<<12
	if l.Version != 0 {
		out ^= uint64(le.Uint32(head[l.Version:])) << 32
	}
	return out
}

// bytes reads a bytes object.
func (im *Image) bytes(addr uint64) ([]byte, error) {
	var head [24]byte
	if err := im.read(addr, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(head[16:])
	if binary.LittleEndian.Uint64(head[8:]) != im.Types.Bytes || n > maxLines {
		return nil, errOther
	}
	out := make([]byte, n)
	if n == 0 {
		return out, nil
	}
	return out, im.read(addr+32, out)
}

// text reads a str object, what is longer than maxText cut.
func (im *Image) text(addr uint64) (string, error) {
	var head [40]byte
	if err := im.read(addr, head[:]); err != nil {
		return "", err
	}
	le := binary.LittleEndian
	n, state := le.Uint64(head[16:]), le.Uint32(head[32:])
	kind, compact, ascii := state>>2&7, state>>5&1, state>>6&1
	if le.Uint64(head[8:]) != im.Types.Str || compact == 0 || n > 1<<30 || kind != 1 && kind != 2 && kind != 4 {
		return "", errOther
	}
	at := addr + uint64(im.Layout.Compact)
	if ascii != 0 {
		at = addr + uint64(im.Layout.ASCII)
	}
	cut := n > maxText
	raw := make([]byte, min(n, maxText)*uint64(kind))
	if len(raw) > 0 {
		if err := im.read(at, raw); err != nil {
			return "", err
		}
	}
	out := decode(raw, kind)
	if cut {
		out += "…"
	}
	return out, nil
}

// decode reads characters of one, two or four bytes.
func decode(raw []byte, kind uint32) string {
	var out strings.Builder
	le := binary.LittleEndian
	for ; len(raw) >= int(kind); raw = raw[kind:] {
		var r rune
		switch kind {
		case 1:
			r = rune(raw[0])
		case 2:
			r = rune(le.Uint16(raw))
		default:
			r = rune(le.Uint32(raw))
		}
		if utf16.IsSurrogate(r) || !unicode.IsPrint(r) { // as surrogateescape makes of bytes that are no text
			r = '�'
		}
		out.WriteRune(r)
	}
	return out.String()
}
