//go:build linux && !viewer

package procfs

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Rollup is the memory of a whole process.
type Rollup struct {
	Memory
	// Summed says that the kernel has no smaps_rollup and the mappings of
	// smaps were summed, each of which the kernel rounds down to 1 KiB.
	Summed bool
}

// SmapsRollup reads /proc/PID/smaps_rollup, or sums /proc/PID/smaps where
// the kernel doesn't have it (Linux 4.14 brought it).
func (p *Process) SmapsRollup() (Rollup, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readMemory(fileRollup, buf[:])
	if errors.Is(err, ErrNotSupported) {
		return p.sumSmaps()
	}
	if err != nil {
		return Rollup{}, err
	}
	m, err := parseRollup(data)
	if err != nil {
		return Rollup{}, p.wrap("parse", "smaps_rollup", err)
	}
	return Rollup{Memory: m}, nil
}

// parseRollup parses a line of address range, then lines "key: N kB".
func parseRollup(data []byte) (Memory, error) {
	line, data := text.CutLine(data)
	if len(line) == 0 || len(data) == 0 {
		return Memory{}, ErrFormat // figures that are not there are not 0
	}
	if m, ok := parseColumns(data); ok {
		return m, nil
	}
	return parseRollupLines(data)
}

// parseRollupLines parses lines whatever their keys and columns.
func parseRollupLines(data []byte) (m Memory, err error) {
	all := data
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		key, value, ok := text.Keyed(line)
		if !ok {
			return Memory{}, fmt.Errorf("%w: line %.80q", ErrFormat, line)
		}
		if to := m.field(key); to != nil {
			if *to, ok = text.Kilobytes(value); !ok {
				return Memory{}, fmt.Errorf("%w: line %.80q", ErrFormat, line)
			}
		}
	}
	learnColumns(all)
	return m, nil
}

// sumSmaps is SmapsRollup for kernels that lack it.
func (p *Process) sumSmaps() (Rollup, error) {
	r := Rollup{Summed: true}
	err := p.Smaps(func(v *VMA) { r.Add(&v.Memory) })
	return r, err
}
