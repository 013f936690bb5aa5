package dwarf

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"sort"
)

const (
	maxFiles = 1 << 18
	// maxPath is the longest name of a file or directory taken, in bytes.
	maxPath = 4096

	// Content types of file and directory entries (DWARF 5, section 7.22).
	lnctPath           = 1
	lnctDirectoryIndex = 2
)

var errLines = errors.New("bad line table")

// lineTable is the line table of one unit.
type lineTable struct {
	sequences []sequence // ascending by lo
	rows      []row
	files     []fileEntry
	dirs      [][]byte
	compDir   string
	oneBased  bool // files and directories count from 1 (before DWARF 5)
	paths     map[uint64]string
	pathBytes int // of all paths
	work      *budget
}

// row says that from addr on the code comes from a line.
type row struct {
	addr uint64
	line uint32
	file uint32
}

// sequence is rows of ascending addresses without a gap.
type sequence struct {
	lo, hi      uint64
	first, last int // rows[first:last]
}

type fileEntry struct {
	name []byte
	dir  uint64
}

// linesOf reads the line table of a unit, once. It is never nil.
func (d *Data) linesOf(l *loaded) (*lineTable, error) {
	if l.lines != nil {
		return l.lines, nil
	}
	l.lines = &lineTable{compDir: string(shortened(d.bytes(l, l.root.compDir))), paths: map[uint64]string{}, work: d.work}
	if !l.root.stmtList.present() {
		return l.lines, nil
	}
	return l.lines, d.parseLines(l, l.lines, l.root.stmtList.u)
}

// at returns the source of addr; "" and 0 where the table has none.
func (t *lineTable) at(addr uint64) (string, int) {
	i := sort.Search(len(t.sequences), func(i int) bool { return t.sequences[i].lo > addr })
	for back := i - 1; back >= max(0, i-maxOverlap); back-- {
		s := t.sequences[back]
		if addr >= s.hi {
			continue
		}
		rows := t.rows[s.first:s.last]
		if j := sort.Search(len(rows), func(j int) bool { return rows[j].addr > addr }); j > 0 {
			return t.path(uint64(rows[j-1].file)), int(rows[j-1].line)
		}
	}
	return "", 0
}

// path returns the path of file i, made once.
func (t *lineTable) path(i uint64) string {
	if p, ok := t.paths[i]; ok {
		return p
	}
	p := t.join(i)
	t.paths[i] = p
	t.pathBytes += len(p)
	t.work.spend(1 + len(p)/stringWork)
	return p
}

func shortened(name []byte) []byte { return name[:min(len(name), maxPath)] }

func (t *lineTable) join(i uint64) string {
	if t.oneBased {
		i--
	}
	if i >= uint64(len(t.files)) {
		return ""
	}
	f := t.files[i]
	name := string(shortened(f.name))
	if name == "" || path.IsAbs(name) {
		return name
	}
	dir := ""
	switch n := f.dir; {
	case t.oneBased && n == 0:
	case t.oneBased && n-1 < uint64(len(t.dirs)):
		dir = string(shortened(t.dirs[n-1]))
	case !t.oneBased && n < uint64(len(t.dirs)):
		dir = string(shortened(t.dirs[n]))
	}
	if !path.IsAbs(dir) {
		dir = path.Join(t.compDir, dir)
	}
	return path.Join(dir, name)
}

// lineHeader is what the program needs of the header.
type lineHeader struct {
	encoding
	minInst, maxOps uint8
	lineBase        int8
	lineRange       uint8
	opcodeBase      uint8
	operands        []uint8 // of the standard opcodes from 1 on
	program         cursor
}

// parseLines reads the line table at off into t.
func (d *Data) parseLines(l *loaded, t *lineTable, off uint64) error {
	h, err := d.lineHeader(l, t, off)
	if err != nil {
		return err
	}
	p := lineProgram{h: h, t: t, work: d.work, maxRows: d.most.rows}
	err = p.run()
	slices.SortStableFunc(t.sequences, func(a, b sequence) int { return cmp.Compare(a.lo, b.lo) })
	t.rows = slices.Clip(t.rows)
	return err
}

func (d *Data) lineHeader(l *loaded, t *lineTable, off uint64) (*lineHeader, error) {
	c := at(d.s.Line, off)
	n, dwarf64 := c.length()
	if c.bad || n > uint64(len(d.s.Line))-c.pos {
		return nil, errLines
	}
	c.data, c.work = c.data[:c.pos+n], d.work
	h := &lineHeader{encoding: encoding{dwarf64: dwarf64, addrSize: l.addrSize}}
	version := c.u16()
	if version < 2 || version > 5 {
		return nil, errLines
	}
	h.version = uint8(version)
	if version == 5 {
		h.addrSize = c.u8()
		c.u8() // segment selector size
	}
	size := c.offset(dwarf64)
	h.program = at(c.data, c.pos+size)
	h.program.work = d.work
	h.minInst, h.maxOps = c.u8(), 1
	if version >= 4 {
		h.maxOps = c.u8()
	}
	c.u8() // default_is_stmt
	h.lineBase, h.lineRange, h.opcodeBase = int8(c.u8()), c.u8(), c.u8()
	if h.lineRange == 0 || h.opcodeBase == 0 || h.addrSize != 4 && h.addrSize != 8 {
		return nil, errLines
	}
	start := c.pos
	c.skip(uint64(h.opcodeBase) - 1)
	if c.bad || h.program.bad {
		return nil, errLines
	}
	h.operands = c.data[start:c.pos]
	if version == 5 {
		d.files5(l, t, h, &c)
	} else {
		t.oneBased = true
		t.files4(&c)
	}
	if c.bad {
		return nil, errLines
	}
	return h, nil
}

// files4 reads directories and files as DWARF 2 to 4 list them.
func (t *lineTable) files4(c *cursor) {
	for !c.bad && len(t.dirs) < maxFiles {
		dir := c.cstring()
		if len(dir) == 0 {
			break
		}
		t.dirs = append(t.dirs, dir)
	}
	for !c.bad && len(t.files) < maxFiles {
		name := c.cstring()
		if len(name) == 0 {
			break
		}
		t.files = append(t.files, fileEntry{name: name, dir: c.uleb()})
		c.uleb() // time
		c.uleb() // size
	}
}

// files5 reads directories and files as DWARF 5 lists them.
func (d *Data) files5(l *loaded, t *lineTable, h *lineHeader, c *cursor) {
	for _, e := range d.entries5(l, h, c) {
		t.dirs = append(t.dirs, e.name)
	}
	t.files = d.entries5(l, h, c)
}

func (d *Data) entries5(l *loaded, h *lineHeader, c *cursor) []fileEntry {
	var formats [256]struct{ content, form uint64 }
	n := int(c.u8())
	for i := range n {
		formats[i].content, formats[i].form = c.uleb(), c.uleb()
	}
	count := c.uleb()
	var entries []fileEntry
	for i := uint64(0); i < count && !c.bad; i++ {
		if !d.work.spend(1 + n/attrWork) {
			c.fail()
			break
		}
		var e fileEntry
		start := c.pos
		for _, f := range formats[:n] {
			pos := c.pos
			v := c.value(h.encoding, uint16(min(f.form, 0xffff)), 0)
			switch {
			case f.content == lnctDirectoryIndex:
				e.dir = v.u
			case f.content == lnctPath && v.form == formString:
				e.name = stringAt(c.data, pos)
			case f.content == lnctPath:
				e.name = d.bytes(l, v)
			}
		}
		// An entry of no size would be repeated without end.
		if c.pos == start || len(entries) >= maxFiles {
			c.fail()
		}
		entries = append(entries, e)
	}
	return entries
}
