//go:build linux && !viewer

package procfs

import (
	"fmt"
	"os"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Statm is /proc/PID/statm: sizes in bytes, the cheapest reading of a
// process's memory. Up to Linux 6.1 the kernel batches the counters behind
// Resident and Shared per thread, by up to 64 pages each; from 6.2 on per CPU.
// A zombie has all zero.
type Statm struct {
	Size     uint64 // mapped address space
	Resident uint64
	Shared   uint64 // the file and shmem part of Resident
	Text     uint64 // mapped code of the program itself
	Data     uint64 // private writable mappings and stack, resident or not
}

// Statm reads /proc/PID/statm (Documentation/filesystems/proc.rst, table 1-3).
func (p *Process) Statm() (Statm, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	s, err := p.readStatm(buf[:])
	if err == nil && s.Size == 0 && p.adoptThread() {
		return p.readStatm(buf[:])
	}
	return s, err
}

func (p *Process) readStatm(buf []byte) (Statm, error) {
	data, err := p.readMemory(fileStatm, buf)
	if err != nil {
		return Statm{}, err
	}
	s, err := parseStatm(data, pageSize)
	if err != nil {
		return Statm{}, p.wrap("parse", "statm", err)
	}
	return s, nil
}

// pageSize is the size of a base page in bytes.
var pageSize = uint64(os.Getpagesize())

// parseStatm parses "size resident shared text lib data dt", in pages.
func parseStatm(data []byte, page uint64) (Statm, error) {
	var v [6]uint64
	rest := data
	for i := range v {
		n, after, ok := text.Decimal(text.SkipBlanks(rest))
		if !ok || n > (1<<64-1)/page {
			return Statm{}, fmt.Errorf("%w: field %d", ErrFormat, i+1)
		}
		v[i], rest = n*page, after
	}
	return Statm{Size: v[0], Resident: v[1], Shared: v[2], Text: v[3], Data: v[5]}, nil
}
