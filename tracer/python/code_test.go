package python

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// memory is a process's: what lies at an address.
type memory map[uint64][]byte

func (m memory) read(addr uint64, b []byte) error {
	for at, data := range m {
		if addr >= at && addr+uint64(len(b)) <= at+uint64(len(data)) {
			copy(b, data[addr-at:])
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

const (
	codeType, strType, bytesType           = 0x1000, 0x2000, 0x3000
	codeAt, nameAt, fileAt, linesAt        = 0x10000, 0x20000, 0x30000, 0x40000
	others                                 = fileAt ^ nameAt<<12
	stateASCII, stateUCS2           uint32 = 1<<2 | 1<<5 | 1<<6, 2<<2 | 1<<5
)

// object is one whose type is at an address, with words at offsets.
func object(size int, kind uint64, words map[uint32]uint64) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint64(b, 1)
	binary.LittleEndian.PutUint64(b[8:], kind)
	for at, v := range words {
		binary.LittleEndian.PutUint64(b[at:], v)
	}
	return b
}

// text is a str of 3.11.
func text(s string, state uint32, data []byte) []byte {
	b := object(48, strType, map[uint32]uint64{16: uint64(len([]rune(s))), 32: uint64(state)})
	if state != stateASCII {
		b = append(b, make([]byte, 24)...)
	}
	return append(b, data...)
}

// process has the code object of a function f of a file é.py in 3.11.
func process() (memory, *Image) {
	l := layouts[11]
	lines := object(32, bytesType, map[uint32]uint64{16: 2})
	m := memory{
		codeAt: object(256, codeType, map[uint32]uint64{l.FirstLine: 7, l.FileName: fileAt, l.Name: nameAt, l.Lines: linesAt}),
		nameAt: text("f", stateASCII, []byte("f")),
		fileAt: text("é.py", stateUCS2, []byte{0xe9, 0, '.', 0, 'p', 0, 'y', 0}),
		// Two units, two lines below the first one, without columns.
		linesAt: append(lines, 0x80|locationNoColumn<<3|1, 4),
	}
	return m, &Image{Minor: 11, Layout: l, Types: Types{Code: codeType, Str: strType, Bytes: bytesType}, Module: "python", read: m.read}
}

// otherName puts a str g in the place of one that the code object has.
func otherName(m memory, at uint32) {
	const elsewhere = 0x50000
	m[elsewhere] = text("g", stateASCII, []byte("g"))
	binary.LittleEndian.PutUint64(m[codeAt][at:], elsewhere)
}

func TestNameOfACodeObject(t *testing.T) {
	_, im := process()
	got, shown := im.Name(&Frame{Code: codeAt, Lines: linesAt, Others: others, FirstLine: 7, At: 2})
	if want := (Name{"f", "é.py", 9, "python"}); got != want || !shown {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Code that is never freed has a count of references of its own: that of frozen modules in 3.11, to which references are added, and in later versions.
func TestCodeThatIsNeverFreed(t *testing.T) {
	for _, references := range []uint64{999_999_999, 1_000_000_017, 999_999_990, 1<<32 - 1} {
		m, im := process()
		binary.LittleEndian.PutUint64(m[codeAt], references)
		if got, _ := im.Name(&Frame{Code: codeAt, Lines: linesAt, Others: others, FirstLine: 7}); got.Function != "f" {
			t.Errorf("with %d references it is called %q", references, got.Function)
		}
	}
}

// What is not what it has to be, or is another object by now, has no name; and what was read once is known.
func TestOtherObjectsHaveNoName(t *testing.T) {
	frame := Frame{Code: codeAt, Lines: linesAt, Others: others, FirstLine: 7}
	for name, spoil := range map[string]func(memory){
		"freed":                   func(m memory) { delete(m, codeAt) },
		"no reference":            func(m memory) { m[codeAt][0] = 0 },
		"a pointer of malloc's":   func(m memory) { m[codeAt][5] = 0x7f },
		"another type":            func(m memory) { m[codeAt][8]++ },
		"another first line":      func(m memory) { m[codeAt][layouts[11].FirstLine]++ },
		"another name":            func(m memory) { otherName(m, layouts[11].Name) },
		"another file":            func(m memory) { otherName(m, layouts[11].FileName) },
		"another table":           func(m memory) { m[codeAt][layouts[11].Lines]++ },
		"a name of another type":  func(m memory) { m[nameAt][8]++ },
		"a table of another type": func(m memory) { m[linesAt][8]++ },
		"a vast table":            func(m memory) { m[linesAt][20] = 1 },
		"a vast name":             func(m memory) { m[nameAt][23] = 1 },
		"an old kind of str":      func(m memory) { m[nameAt][32] &^= 1 << 5 },
	} {
		m, im := process()
		im.Name(&frame)
		child := im.Fork(m.read)
		spoil(m)
		if got, _ := child.Name(&frame); got.Function != "f" {
			t.Errorf("%s: what is known already is %+v", name, got)
		}
		_, im = process()
		im.read = m.read
		if got, _ := im.Name(&frame); got.Function != Unknown || got.File != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A code object that took another one's place, with all of its addresses, has another number from 3.12 on.
func TestCodeWithAnotherNumberHasNoName(t *testing.T) {
	m, _ := process()
	l := layouts[12]
	m[codeAt] = object(256, codeType, map[uint32]uint64{l.FirstLine: 7, l.Version: 2, l.FileName: fileAt, l.Name: nameAt, l.Lines: linesAt})
	m[nameAt] = append(object(int(l.ASCII), strType, map[uint32]uint64{16: 1, 32: uint64(stateASCII)}), 'f')
	m[fileAt] = m[nameAt]
	for number, want := range map[uint64]string{1: Unknown, 2: "f"} {
		im := &Image{Minor: 12, Layout: l, Types: Types{Code: codeType, Str: strType, Bytes: bytesType}, read: m.read}
		if got, _ := im.Name(&Frame{Code: codeAt, Lines: linesAt, Others: others ^ number<<32, FirstLine: 7}); got.Function != want {
			t.Errorf("number %d: %+v, want %s", number, got, want)
		}
	}
}

// A code object that is replaced while it is read has no name.
func TestCodeReplacedWhileItIsRead(t *testing.T) {
	m, im := process()
	im.read = func(addr uint64, b []byte) error {
		err := m.read(addr, b)
		if addr == linesAt {
			m[codeAt][8]++
		}
		return err
	}
	if got, _ := im.Name(&Frame{Code: codeAt, Lines: linesAt, Others: others, FirstLine: 7}); got.Function != Unknown {
		t.Errorf("%+v", got)
	}
}

// Whatever a process has, little is read of it.
func FuzzName(f *testing.F) {
	m, _ := process()
	for _, data := range m {
		f.Add(data, uint64(len(data)))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint64) {
		defer costtest.Bound(t)()
		for minor, l := range layouts {
			read := 0
			im := &Image{Minor: minor, Layout: l, read: func(addr uint64, b []byte) error {
				if read += len(b); read > maxLines+2*4*maxText+4096 {
					t.Fatalf("%d bytes", read)
				}
				for i := range b {
					if len(data) > 0 {
						b[i] = data[(addr+uint64(i))%uint64(len(data))]
					}
				}
				return nil
			}}
			var head [256]byte
			_ = im.read(at, head[:])
			le := binary.LittleEndian
			im.Types = Types{le.Uint64(head[8:]), le.Uint64(head[8:]), le.Uint64(head[8:])}
			read = 0
			im.Name(&Frame{Code: at, Lines: le.Uint64(head[l.Lines:]), Others: l.others(head[:]), FirstLine: int32(le.Uint32(head[l.FirstLine:])), At: int32(at)})
		}
	})
}

// A program that is no Python is none.
func TestOwnProgramIsNoPython(t *testing.T) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if im, err := Find(os.Getpid(), Mapping{Path: "test"}, f); im != nil || err != nil {
		t.Errorf("%+v, %v", im, err)
	}
	if _, err := Find(os.Getpid(), Mapping{}, &io.SectionReader{}); err == nil || errors.Is(err, ErrUnknownVersion) {
		t.Errorf("of an empty file: %v", err)
	}
}

// Names beyond their limit are unknown, and what has a number keeps it.
func TestNamesAreNumberedOnce(t *testing.T) {
	var n Names
	a, b := n.Number(Name{Function: "a"}), n.Number(Name{Function: "b"})
	if again := n.Number(Name{Function: "a"}); a == b || again != a {
		t.Errorf("%d, %d, %d", a, b, again)
	}
	if got, ok := n.At(b); !ok || got.Function != "b" {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := n.At(2); ok {
		t.Error("a name that nobody numbered")
	}
}

// A program's names take only so much, however long they are; then they are unknown, and no process has another's file.
func TestNamesTakeOnlySoMuch(t *testing.T) {
	var n Names
	long := strings.Repeat("n", maxText)
	kept, last := 0, uint64(0)
	for i := range 2 * maxNameBytes / maxText {
		last = n.Number(Name{Function: long, Line: i, Module: fmt.Sprint(i)})
	}
	for i := range last {
		name, _ := n.At(i)
		kept += len(name.Function)
	}
	if got, _ := n.At(last); kept > maxNameBytes || got != (Name{Function: Unknown, Module: Unknown}) {
		t.Errorf("%d bytes of names, the last one %.40v", kept, got)
	}
}

// What is kept of code objects is bounded by their names, too.
func TestCodesTakeOnlySoMuch(t *testing.T) {
	m, im := process()
	m[nameAt] = text(strings.Repeat("n", maxText), stateASCII, bytes.Repeat([]byte("n"), maxText))
	const apart = 1 << 32
	im.read = func(addr uint64, b []byte) error { return m.read(addr%apart, b) } // the same code object, again and again
	for i := range uint64(2 * maxTables / maxText) {
		im.Name(&Frame{Code: codeAt + i*apart, Lines: linesAt, Others: others, FirstLine: 7})
	}
	kept := 0
	for _, c := range im.codes {
		kept += len(c.function) + len(c.file)
	}
	if kept == 0 || kept > maxTables+2*maxText {
		t.Errorf("%d bytes", kept)
	}
}
