//go:build linux && !viewer

package goheap

import "errors"

const (
	// magic120 is that of pclntab's header since Go 1.20 (internal/abi, Go120PCLnTabMagic).
	magic120 = 0xfffffff1
	// maxFunctions is far more than any program has.
	maxFunctions = 1 << 24
	// maxSteps bounds the entries of one table of values by code address.
	maxSteps = 1 << 20
	// maxText bounds a name and a path, in bytes.
	maxText = 4 << 10

	inlineIndex = 2 // PCDATA_InlTreeIndex
	inlineTree  = 3 // FUNCDATA_InlTree
)

var errTable = errors.New("its table of functions (pclntab) is not as Go 1.20 to 1.26 write it")

// A table is a program's pclntab, in its file. Addresses are those of the file.
type table struct {
	file    *pages
	base    uint64 // where it is in the file
	quantum uint64 // of code addresses
	funcs   uint64 // number

	names, units, paths, values, entries uint64 // file offsets of its parts
	text                                 uint64 // address that entries count from
	inline                               uint64 // file offset of go:func.*, where inline trees are; 0: not known
}

// newTable reads the header at an offset of the file (runtime/symtab.go, pcHeader).
func newTable(file *pages, base uint64) (*table, error) {
	var h [72]byte
	if !file.read(h[:], base) || le32(h[:]) != magic120 || h[7] != 8 || h[6] == 0 {
		return nil, errTable
	}
	t := &table{file: file, base: base, quantum: uint64(h[6]), funcs: le64(h[8:])}
	t.names, t.units, t.paths = base+le64(h[32:]), base+le64(h[40:]), base+le64(h[48:])
	t.values, t.entries = base+le64(h[56:]), base+le64(h[64:])
	if t.funcs == 0 || t.funcs > maxFunctions {
		return nil, errTable
	}
	return t, nil
}

// entry is the i-th function's offset from text, and where its record is in the file.
func (t *table) entry(i uint64) (offset, record uint64, ok bool) {
	var b [8]byte
	ok = t.file.read(b[:], t.entries+8*i)
	return uint64(le32(b[:])), t.entries + uint64(le32(b[4:])), ok
}

// A function is a record of pclntab (runtime2.go, _func).
type function struct {
	at      uint64 // of the record, in the file
	entry   uint64 // address
	name    uint32
	file    uint32
	line    uint32
	pcdata  uint32 // number
	unit    uint32
	funcdat uint8 // number
}

func (t *table) function(i uint64) (f function, ok bool) {
	offset, at, ok := t.entry(i)
	var b [44]byte
	if !ok || !t.file.read(b[:], at) {
		return f, false
	}
	return function{
		at: at, entry: t.text + offset, name: le32(b[4:]), file: le32(b[20:]), line: le32(b[24:]),
		pcdata: le32(b[28:]), unit: le32(b[32:]), funcdat: b[43],
	}, true
}

// find returns the function that an address lies in.
func (t *table) find(pc uint64) (f function, ok bool) {
	if pc < t.text {
		return f, false
	}
	low, high := uint64(0), t.funcs // the entry at high ends the table
	for low < high {
		mid := (low + high) / 2
		if offset, _, ok := t.entry(mid); !ok {
			return f, false
		} else if t.text+offset > pc {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if end, _, ok := t.entry(t.funcs); low == 0 || !ok || pc >= t.text+end {
		return f, false
	}
	return t.function(low - 1)
}

// value looks an address up in one of a function's tables of values (runtime/symtab.go, pcvalue); -1 where it has none.
func (t *table) value(f function, offset uint32, pc uint64) int32 {
	if offset == 0 {
		return -1
	}
	at, here, value := t.values+uint64(offset), f.entry, int32(-1)
	for i := range maxSteps {
		delta, ok := t.varint(&at)
		if !ok || delta == 0 && i > 0 {
			return -1
		}
		if delta&1 != 0 {
			delta = ^(delta >> 1)
		} else {
			delta >>= 1
		}
		value += int32(delta)
		step, ok := t.varint(&at)
		if !ok {
			return -1
		}
		if here += uint64(step) * t.quantum; pc < here {
			return value
		}
	}
	return -1
}

func (t *table) varint(at *uint64) (v uint32, ok bool) {
	for shift := uint(0); shift < 35; shift += 7 {
		b := t.file.block(*at &^ (block - 1))
		off := *at & (block - 1)
		if off >= uint64(len(b)) {
			return 0, false
		}
		*at++
		v |= uint32(b[off]&0x7f) << shift
		if b[off]&0x80 == 0 {
			return v, true
		}
	}
	return 0, false
}

// A Frame is a function of a stack.
type Frame struct {
	Function string // with its package's path, as in main.(*T).f
	File     string
	Line     int
	Inlined  bool   // into the function of the next frame
	Addr     uint64 // of the call, in the program's file
}

// frame names the innermost function at an address. That is what one of the profile's addresses stands for, as the runtime
// writes one for each inlined call (runtime.CallersFrames).
func (t *table) frame(pc uint64) (Frame, bool) {
	f, ok := t.find(pc)
	if !ok {
		return Frame{}, false
	}
	out := Frame{Addr: pc, Line: int(max(t.value(f, f.line, pc), 0)), File: t.path(f, pc)}
	name := f.name
	if inner, ok := t.inlined(f, pc); ok {
		name, out.Inlined = inner, true
	}
	out.Function = t.file.text(t.names+uint64(name), maxText)
	return out, out.Function != ""
}

func (t *table) path(f function, pc uint64) string {
	number := t.value(f, f.file, pc)
	if number < 0 {
		return ""
	}
	offset, ok := t.file.u32(t.units + 4*(uint64(f.unit)+uint64(number)))
	if !ok || offset == ^uint32(0) {
		return ""
	}
	return t.file.text(t.paths+uint64(offset), maxText)
}

// inlined gives the name of the function that was inlined at an address (runtime/symtabinl.go).
func (t *table) inlined(f function, pc uint64) (name uint32, ok bool) {
	if t.inline == 0 || f.pcdata <= inlineIndex || f.pcdata > 1<<10 || f.funcdat <= inlineTree {
		return 0, false
	}
	indices, ok := t.file.u32(f.at + 44 + 4*inlineIndex)
	tree, found := t.file.u32(f.at + 44 + 4*uint64(f.pcdata) + 4*inlineTree)
	if !ok || !found || tree == ^uint32(0) {
		return 0, false
	}
	index := t.value(f, indices, pc)
	if index < 0 {
		return 0, false
	}
	return t.file.u32(t.inline + uint64(tree) + 16*uint64(index) + 4)
}

// entriesOf finds functions by name.
func (t *table) entriesOf(names ...string) map[string][2]uint64 {
	wanted := make(map[string]bool, len(names))
	longest := 0
	for _, n := range names {
		wanted[n] = true
		longest = max(longest, len(n))
	}
	out := make(map[string][2]uint64, len(names))
	for i := uint64(0); i < t.funcs && len(out) < len(names); i++ {
		offset, at, ok := t.entry(i)
		if !ok {
			break
		}
		name, ok := t.file.u32(at + 4)
		if !ok {
			continue
		}
		if text := t.file.text(t.names+uint64(name), longest+1); wanted[text] {
			end, _, _ := t.entry(i + 1)
			out[text] = [2]uint64{t.text + offset, t.text + end}
		}
	}
	return out
}
