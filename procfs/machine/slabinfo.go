package machine

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Slab is one cache of the kernel's own allocator.
type Slab struct {
	Name          string
	ActiveObjects uint64 // in use; an estimate where slabs are cached per CPU
	Objects       uint64
	ObjectSize    uint64 // bytes
	Bytes         uint64 // of all its slabs
}

// Slabinfo reads /proc/slabinfo (slabinfo(5)) into slabs, which it extends as
// needed. Only root may, or who has CAP_DAC_READ_SEARCH.
func (r *Reader) Slabinfo(slabs []Slab) ([]Slab, error) {
	const name = "slabinfo"
	data, err := r.proc.Read(name)
	if err != nil {
		return nil, err
	}
	slabs, err = parseSlabinfo(data, slabs, pageSize)
	return slabs, r.proc.Wrap(name, err)
}

// parseSlabinfo parses lines "name active_objs num_objs objsize objperslab
// pagesperslab : tunables … : slabdata active_slabs num_slabs sharedavail".
func parseSlabinfo(data []byte, slabs []Slab, page uint64) ([]Slab, error) {
	line, data := text.CutLine(data)
	if !bytes.HasPrefix(line, []byte("slabinfo - version: 2.")) {
		return nil, fmt.Errorf("%w: version %.80q", procfs.ErrFormat, line)
	}
	n := 0
	for len(data) > 0 {
		line, data = text.CutLine(data)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if n == len(slabs) {
			slabs = append(slabs, Slab{})
		}
		if !slabs[n].parse(line, page) {
			return nil, fmt.Errorf("%w: line %.80q", procfs.ErrFormat, line)
		}
		n++
	}
	return slabs[:n], nil
}

func (s *Slab) parse(line []byte, page uint64) bool {
	name, rest := text.Field(line)
	var v [5]uint64
	for i := range v {
		var ok bool
		if v[i], rest, ok = text.Decimal(text.SkipBlanks(rest)); !ok {
			return false
		}
	}
	const word = ": slabdata"
	at := bytes.Index(rest, []byte(word))
	if at < 0 || len(name) == 0 {
		return false
	}
	_, rest, _ = text.Decimal(text.SkipBlanks(rest[at+len(word):]))
	count, _, ok := text.Decimal(text.SkipBlanks(rest))
	pages := v[4]
	if !ok || pages > 1<<20 || count > 1<<40/page {
		return false
	}
	if s.Name != string(name) {
		s.Name = string(name)
	}
	s.ActiveObjects, s.Objects, s.ObjectSize, s.Bytes = v[0], v[1], v[2], count*pages*page
	return true
}
