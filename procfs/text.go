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

// decimal parses the digits at the start of b and returns what follows them.
// It fails without digits and on more than 64 bits.
func decimal(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i] - '0')
		if d > 9 {
			break
		}
		if v > (1<<64-1)/10 || v*10 > 1<<64-1-d {
			return 0, b, false
		}
		v = v*10 + d
	}
	return v, b[i:], i > 0
}

// hexadecimal parses the lower-case hexadecimal digits at the start of b.
func hexadecimal(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i])
		switch {
		case d-'0' <= 9:
			d -= '0'
		case d-'a' <= 5:
			d -= 'a' - 10
		default:
			return v, b[i:], i > 0 && i <= 16
		}
		v = v<<4 | d
	}
	return v, b[i:], i > 0 && i <= 16
}

// skipBlanks returns b from its first byte on that is no blank or tab.
func skipBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// field returns the first blank-separated field of b and what follows it.
func field(b []byte) (f, rest []byte) {
	b = skipBlanks(b)
	for i, c := range b {
		if c == ' ' || c == '\t' {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// keyed splits a line such as "VmRSS:\t  12 kB" into "VmRSS" and "12 kB".
func keyed(line []byte) (key, value []byte, ok bool) {
	i := bytes.IndexByte(line, ':')
	if i <= 0 {
		return nil, nil, false
	}
	return line[:i], skipBlanks(line[i+1:]), true
}

// kilobytes parses "12 kB" as 12,288.
func kilobytes(value []byte) (uint64, bool) {
	v, _, ok := decimal(value)
	if !ok || v > 1<<54-1 {
		return 0, false
	}
	return v << 10, true
}

// cutLine returns the first line of data and what follows it.
func cutLine(data []byte) (line, rest []byte) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return data[:i], data[i+1:]
	}
	return data, nil
}
