package poolname

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A Reader reads names by process_vm_readv, which brings in pages of files that
// the process has not touched yet. The zero Reader knows no pools.
type Reader struct {
	// Offset is where in a pool's own record the address of its name lies, in
	// bytes; 0: it has none.
	Offset uint64
}

// offsets are those of layers (probe.Layers).
var offsets = map[string]uint64{
	"apr":      80, // struct apr_pool_t, tag; memory/unix/apr_pools.c
	"postgres": 56, // struct MemoryContextData from 13 on, src/include/nodes/memnodes.h
}

// Of returns the Reader for what is traced: a single layer, or any functions.
func Of(layers []string) Reader {
	if len(layers) != 1 {
		return Reader{} // nobody can tell whose a pool is
	}
	return Reader{Offset: offsets[layers[0]]}
}

// maxName is how much of a name is read.
const maxName = 64

// Text returns the text at an address of a process's memory, "" where there is
// none: it ends at its first byte of 0 and has printable ASCII characters alone.
func (Reader) Text(pid uint32, addr uint64) string {
	var buf [maxName]byte
	n := read(pid, addr, buf[:])
	text, _, _ := bytes.Cut(buf[:n], []byte{0})
	for _, c := range text {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return string(text)
}

// Pool returns the name of the pool at an address, "" if it has none. What is
// read of a pool that has just ended may be another's.
func (r Reader) Pool(pid uint32, pool uint64) string {
	var word [8]byte
	if r.Offset == 0 || read(pid, pool+r.Offset, word[:]) < len(word) {
		return ""
	}
	return r.Text(pid, binary.LittleEndian.Uint64(word[:]))
}

// read returns how many bytes it has read, up to the end of the page at least
// where the page is there.
func read(pid uint32, addr uint64, into []byte) int {
	total := 0
	for len(into) > 0 {
		step := min(uint64(len(into)), pageSize-addr%pageSize)
		local := unix.Iovec{Base: &into[0]}
		local.SetLen(int(step))
		n, err := unix.ProcessVMReadv(int(pid), []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: int(step)}}, 0)
		if err != nil || n <= 0 {
			return total
		}
		total, addr, into = total+n, addr+uint64(n), into[n:]
	}
	return total
}

// pageSize divides that of every machine.
const pageSize = 4096
