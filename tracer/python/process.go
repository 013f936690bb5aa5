package python

import (
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Mapping is a part of a file's code in a process.
type Mapping struct {
	Start, Offset uint64 // address; in the file
	Path          string
}

// MayBe reports whether a file may be a CPython's, by its name: the program or its library. A program that has all of the
// interpreter in its own file under another name is not recognised.
func MayBe(file string) bool {
	return strings.Contains(path.Base(file), "python")
}

// Find looks whether the file that is mapped at m is an interpreter's, and makes its Image in process pid. It returns nil
// without an error where it is none; the error is ErrUnknownVersion where it is one that is not known.
func Find(pid int, m Mapping, file io.ReaderAt) (*Image, error) {
	b, err := readProgram(file)
	if b == nil || err != nil {
		return nil, err
	}
	bias, ok := b.bias(m.Start, m.Offset)
	if !ok {
		return nil, nil
	}
	im := &Image{
		Minor: b.minor, Layout: b.layout, Runtime: b.runtime + bias, Module: m.Path, FreesCode: b.freesCode, read: Memory(pid),
		Types: Types{Code: b.code + bias, Str: b.str + bias, Bytes: b.bytes + bias},
	}
	for _, s := range b.loop {
		im.loop = append(im.loop, span{s.from + bias, s.to + bias})
	}
	return im, nil
}

// Memory reads the memory of process pid (process_vm_readv(2)).
func Memory(pid int) func(addr uint64, b []byte) error {
	return func(addr uint64, b []byte) error {
		local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
		n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
		if err == nil && n < len(b) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("read %d bytes at %#x of process %d: %w", len(b), addr, pid, err)
		}
		return nil
	}
}
