// Package whole reads small files whole, into a buffer that is reused.
package whole

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// maxFile bounds what a file may hold: zoneinfo and slabinfo of the largest
// machines have a few megabytes.
const maxFile = 16 << 20

// Reader reads files below a directory that it holds open. It is for one
// goroutine at a time; what it returns is valid until its next Read.
type Reader struct {
	root string
	fd   int
	buf  []byte
}

// Open holds the directory root.
func Open(root string) (*Reader, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	return &Reader{root: root, fd: fd, buf: make([]byte, 8<<10)}, nil
}

// Close lets go of the directory.
func (r *Reader) Close() error { return unix.Close(r.fd) }

// FD is the directory's descriptor, for use relative to it.
func (r *Reader) FD() int { return r.fd }

// Read returns the contents of the file name, relative to the directory. Where
// there is no such file that is ErrNotSupported.
func (r *Reader) Read(name string) ([]byte, error) {
	fd, err := unix.Openat(r.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, r.wrap("open", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	n := 0
	for {
		if n == len(r.buf) {
			if n >= maxFile {
				return nil, r.wrap("read", name, fmt.Errorf("%w: more than %d bytes", procfs.ErrFormat, maxFile))
			}
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
		got, err := unix.Read(fd, r.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, r.wrap("read", name, err)
		}
		if got == 0 {
			return r.buf[:n], nil
		}
		n += got
	}
}

// wrap says what was tried on which file, and whether this kernel has it.
func (r *Reader) wrap(verb, name string, err error) error {
	switch err {
	case unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL:
		err = procfs.ErrNotSupported
	case unix.ENODEV:
		err = procfs.ErrGone
	}
	return fmt.Errorf("%s %s/%s: %w", verb, r.root, name, err)
}

// Wrap is the error of parsing the file name.
func (r *Reader) Wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("parse %s/%s: %w", r.root, name, err)
}
