package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// A row is a birth or an end in Firefox's format.
type row struct {
	time   uint64 // ns since Config.Start
	bytes  int64  // negative of an end
	addr   uint64
	stack  int32
	thread uint32
}

const (
	rowBytes = 8 + 8 + 8 + 4 + 4
	partRows = 1 << 9
)

// A rowFile holds the rows of all processes in a temporary file, in parts of which each is of one process.
type rowFile struct {
	file *os.File
	size int64
	of   []processRows // by process.number
}

type processRows struct {
	rows  int
	parts []int64 // where those in the file begin, of partRows rows each
	open  []byte  // the last one, in memory
}

func newRowFile(folder string, processes int) (*rowFile, error) {
	f, err := os.CreateTemp(folder, "memtrace-export-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make a temporary file for the rows of the profile: %w (TMPDIR names the folder)", err)
	}
	return &rowFile{file: f, of: make([]processRows, processes)}, nil
}

func (f *rowFile) close() error { return errors.Join(f.file.Close(), os.Remove(f.file.Name())) }

func (f *rowFile) add(process int, r row) error {
	p := &f.of[process]
	p.rows++
	p.open = binary.LittleEndian.AppendUint64(p.open, r.time)
	p.open = binary.LittleEndian.AppendUint64(p.open, uint64(r.bytes))
	p.open = binary.LittleEndian.AppendUint64(p.open, r.addr)
	p.open = binary.LittleEndian.AppendUint32(p.open, uint32(r.stack))
	p.open = binary.LittleEndian.AppendUint32(p.open, r.thread)
	if len(p.open) < partRows*rowBytes {
		return nil
	}
	if _, err := f.file.WriteAt(p.open, f.size); err != nil {
		return fmt.Errorf("write rows of the profile to a temporary file: %w (TMPDIR names the folder)", err)
	}
	p.parts = append(p.parts, f.size)
	f.size += int64(len(p.open))
	p.open = p.open[:0]
	return nil
}

// each yields the rows of a process in their order.
func (f *rowFile) each(process int, yield func(r row)) error {
	p := &f.of[process]
	part := make([]byte, partRows*rowBytes)
	for _, at := range p.parts {
		if _, err := f.file.ReadAt(part, at); err != nil {
			return fmt.Errorf("read rows of the profile from a temporary file: %w", err)
		}
		eachRow(part, yield)
	}
	eachRow(p.open, yield)
	return nil
}

func eachRow(part []byte, yield func(r row)) {
	for ; len(part) > 0; part = part[rowBytes:] {
		yield(row{
			time:   binary.LittleEndian.Uint64(part),
			bytes:  int64(binary.LittleEndian.Uint64(part[8:])),
			addr:   binary.LittleEndian.Uint64(part[16:]),
			stack:  int32(binary.LittleEndian.Uint32(part[24:])),
			thread: binary.LittleEndian.Uint32(part[28:]),
		})
	}
}
