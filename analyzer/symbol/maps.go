package symbol

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/procfs"
)

// region is one executable line of /proc/PID/maps.
type region struct {
	start, end uint64
	offset     uint64 // of start in the file
	major      uint32
	minor      uint32
	inode      uint64
	path       string // unescaped, without " (deleted)"; or [vdso] and the like; or ""
	deleted    bool
}

// fileBacked tells whether a file of some file system lies behind the region.
func (r region) fileBacked() bool {
	return r.inode != 0 && strings.HasPrefix(r.path, "/")
}

// Limits on what is read of /proc/PID/maps.
const (
	maxMapsLine = 64 << 10
	maxRegions  = 1 << 18 // executable ones; the kernel allows 65,530 unless it is told otherwise
)

// codeMaps is what a /proc/PID/maps says of code.
type codeMaps struct {
	regions []region // ascending
	any     bool     // there was a line at all
	names   procfs.Names
	more    int // regions that had no room

	before region // while it is read: what lies before code that may have been moved
}

// parseMaps reads /proc/PID/maps, line by line, as its text can take 256 MB. Lines
// it can't read are left out.
func parseMaps(from io.Reader) (*codeMaps, error) {
	c := &codeMaps{}
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4096), maxMapsLine)
	var before []byte // the line before
	moved := false    // the last region may be code that was moved from the file of its neighbours
	for ; lines.Scan(); before = append(before[:0], lines.Bytes()...) {
		c.any = true
		line := lines.Bytes()
		if moved {
			c.restore(len(c.regions)-1, line)
			moved = false
		}
		// "LO-HI r-xp …": the permissions tell early what to leave out.
		if sp := bytes.IndexByte(line, ' '); sp < 0 || len(line) < sp+5 || line[sp+3] != 'x' {
			continue
		}
		if len(c.regions) >= maxRegions {
			c.more++
		} else if r, ok := parseMapsLine(line, &c.names); ok {
			c.regions = append(c.regions, r)
			if moved = r.mayBeMoved(); moved {
				c.before, moved = parseMapsLine(before, &c.names)
			}
		}
	}
	return c, lines.Err()
}

// mayBeMoved reports whether a region may be code that a program has moved to anonymous memory, as for huge pages.
func (r region) mayBeMoved() bool {
	return r.inode == 0 && (r.path == "" || strings.HasPrefix(r.path, "[anon:"))
}

// restore gives code that was moved back to its file: it lies between two parts of one file, of code or not, just where
// that has what is missing between them. next is the line after it.
func (c *codeMaps) restore(i int, next []byte) {
	before, r := c.before, &c.regions[i]
	after, ok := parseMapsLine(next, &c.names)
	if !ok || !before.fileBacked() || before.end != r.start || r.end != after.start {
		return
	}
	offset := before.offset + (before.end - before.start)
	if before.sameFile(after) && after.offset == offset+(r.end-r.start) {
		r.offset, r.major, r.minor, r.inode = offset, before.major, before.minor, before.inode
		r.path, r.deleted = before.path, before.deleted
	}
}

func (r region) sameFile(o region) bool {
	return r.major == o.major && r.minor == o.minor && r.inode == o.inode
}

// parseMapsLine parses "LO-HI PERM OFFSET MAJ:MIN INODE   PATH".
func parseMapsLine(line []byte, names *procfs.Names) (region, bool) {
	var fields [5]string
	for i := range fields {
		field, rest, _ := bytes.Cut(line, []byte{' '})
		fields[i], line = string(field), rest
	}
	lo, hi, _ := strings.Cut(fields[0], "-")
	major, minor, _ := strings.Cut(fields[3], ":")
	n := numbers{ok: true}
	r := region{
		start:  n.parse(lo, 16, 64),
		end:    n.parse(hi, 16, 64),
		offset: n.parse(fields[2], 16, 64),
		major:  uint32(n.parse(major, 16, 32)),
		minor:  uint32(n.parse(minor, 16, 32)),
		inode:  n.parse(fields[4], 10, 64),
	}
	path := bytes.TrimLeft(line, " ")
	if r.inode != 0 {
		path, r.deleted = bytes.CutSuffix(path, []byte(" (deleted)"))
		path = bytes.ReplaceAll(path, []byte(`\012`), []byte{'\n'})
	}
	r.path = names.Of(path)
	return r, n.ok && r.start < r.end
}

// numbers parses several numbers and remembers whether all were good.
type numbers struct{ ok bool }

func (n *numbers) parse(s string, base, bits int) uint64 {
	v, err := strconv.ParseUint(s, base, bits)
	if err != nil {
		n.ok = false
	}
	return v
}
