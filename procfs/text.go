//go:build linux && !viewer

package procfs

import (
	"bytes"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// maxText bounds a small file and a line: a path has at most 4,096 bytes, of
// which the kernel writes a newline as four.
const maxText = 32 << 10

// textBuffers are lent to the readers of small files.
var textBuffers = sync.Pool{New: func() any { return new([maxText]byte) }}

// fdReader reads a file descriptor.
type fdReader struct{ fd int }

func (f *fdReader) Read(b []byte) (int, error) {
	n, err := readRetry(f.fd, b)
	if err == nil && n == 0 {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (f *fdReader) close() { _ = unix.Close(f.fd) }

// lineReader splits what it reads into lines within a fixed buffer.
type lineReader struct {
	src  io.Reader
	r, w int
	err  error
	buf  [maxText]byte
}

func (l *lineReader) reset(src io.Reader) {
	l.src, l.r, l.w, l.err = src, 0, 0, nil
}

// next returns the next line without its newline, valid until the next call.
// After the last line it returns io.EOF; a last line without newline counts.
func (l *lineReader) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.r:l.w], '\n'); i >= 0 {
			line := l.buf[l.r : l.r+i]
			l.r += i + 1
			return line, nil
		}
		if l.err != nil {
			return l.rest()
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// rest returns what follows the last newline, then the error that ended it.
func (l *lineReader) rest() ([]byte, error) {
	if l.err == io.EOF && l.r < l.w {
		line := l.buf[l.r:l.w]
		l.r = l.w
		return line, nil
	}
	return nil, l.err
}

// fill reads more, after making room.
func (l *lineReader) fill() error {
	if l.r > 0 {
		l.w = copy(l.buf[:], l.buf[l.r:l.w])
		l.r = 0
	}
	if l.w == len(l.buf) {
		return ErrFormat
	}
	n, err := l.src.Read(l.buf[l.w:])
	l.w += n
	l.err = err
	if n == 0 && err == nil {
		l.err = io.ErrNoProgress
	}
	return nil
}
