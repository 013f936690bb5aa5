//go:build linux && !viewer

package runtimemap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// pageSize is what is read at a time, in bytes.
const pageSize = 4096

// errRoom: a process would have more of its memory read than one reading may take.
var errRoom = errors.New("it leads through more memory than memtrace reads")

// keptPages bounds the pages that are kept: 4 MiB.
const keptPages = 1 << 10

// memory is that of a process, by process_vm_readv(2): it needs no stop. Pages that were read are kept until forget,
// or until there are too many; then they are read anew. The first failure stays, and what is read after it is zero.
type memory struct {
	pid   int
	room  int // bytes that may still be read
	pages map[uint64]*[pageSize]byte
	err   error
}

// clear forgets what was read, and grants n bytes more.
func (m *memory) clear(n int) {
	m.pages, m.room, m.err = make(map[uint64]*[pageSize]byte), n, nil
}

// forget lets go of what was read, when nothing more is to be read for a while.
func (m *memory) forget() { m.pages = nil }

func (m *memory) page(at uint64) *[pageSize]byte {
	if p := m.pages[at]; p != nil || m.err != nil {
		return p
	}
	if m.room -= pageSize; m.room < 0 {
		m.err = errRoom
		return nil
	}
	p := new([pageSize]byte)
	local := []unix.Iovec{{Base: &p[0], Len: pageSize}}
	n, err := unix.ProcessVMReadv(m.pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: pageSize}}, 0)
	if err == nil && n < pageSize {
		err = unix.EFAULT
	}
	if err != nil {
		m.err = fmt.Errorf("read %#x of process %d: %w", at, m.pid, err)
		return nil
	}
	if len(m.pages) >= keptPages {
		clear(m.pages)
	}
	m.pages[at] = p
	return p
}

// byteAt returns 0 after a failure.
func (m *memory) byteAt(at uint64) byte {
	if p := m.page(at &^ (pageSize - 1)); p != nil {
		return p[at%pageSize]
	}
	return 0
}

func (m *memory) word(at uint64) uint64 {
	if off := at % pageSize; off <= pageSize-8 {
		if p := m.page(at - off); p != nil {
			return binary.LittleEndian.Uint64(p[off:])
		}
		return 0
	}
	var b [8]byte
	for i := range b {
		b[i] = m.byteAt(at + uint64(i))
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (m *memory) int32(at uint64) int32 {
	if off := at % 8; off <= 4 {
		return int32(m.word(at-off) >> (8 * off))
	}
	return int32(m.word(at))
}

// text reads up to a zero byte; a longer one than most is "".
func (m *memory) text(at uint64, most int) string {
	if at == 0 {
		return ""
	}
	var b []byte
	for i := range most {
		c := m.byteAt(at + uint64(i))
		if c == 0 {
			return string(b)
		}
		b = append(b, c)
	}
	return ""
}
