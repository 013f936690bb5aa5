//go:build linux && !viewer

package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memtrace/memtrace/procfs/internal/text"
	"golang.org/x/sys/unix"
)

// Comm reads /proc/PID/comm, the name of the process's first thread.
func (p *Process) Comm() (string, error) { return p.readComm(fileComm) }

func (p *Process) readComm(name string) (string, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readSmall(name, buf[:])
	if err != nil {
		return "", err
	}
	data = bytes.TrimSuffix(data, []byte("\n")) // the one the kernel adds; the name may end with its own
	if string(data) != p.comm {
		p.comm = string(data)
	}
	return p.comm, nil
}

// Exe returns what /proc/PID/exe links to: the program's path in the
// process's own mount namespace, with " (deleted)" after it where the file is
// gone.
func (p *Process) Exe() (string, error) {
	exe, err := p.readLink(p.memoryDir(), "exe")
	if errors.Is(err, ErrGone) && p.adoptThread() {
		return p.readLink(p.memoryDir(), "exe")
	}
	return exe, err
}

// NSInode returns the inode number of one of the process's namespaces, such
// as "pid" or "mnt": equal numbers mean the same namespace (namespaces(7)).
func (p *Process) NSInode(kind string) (uint64, error) {
	link, err := p.readLink(p.dir, "ns/"+kind)
	if err != nil {
		return 0, err
	}
	ino, err := parseNSLink(link, kind)
	if err != nil {
		return 0, p.wrap("parse", "ns/"+kind, err)
	}
	return ino, nil
}

// parseNSLink parses a link such as "pid:[4026531836]".
func parseNSLink(link, kind string) (uint64, error) {
	inner, ok := strings.CutPrefix(link, kind+":[")
	v, rest, digits := text.Decimal([]byte(inner))
	if !ok || !digits || string(rest) != "]" {
		return 0, fmt.Errorf("%w: %q", ErrFormat, link)
	}
	return v, nil
}

func (p *Process) readLink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		if err == unix.ENOENT && name == "exe" {
			err = p.whyNoMemory() // kernel threads and zombies have the link, but nowhere to go
		}
		return "", p.wrap("read link", name, err)
	}
	return string(buf[:n]), nil
}

// maxCmdline bounds what Cmdline reads; the kernel allows a program megabytes.
const maxCmdline = 64 << 10

// Cmdline returns the process's arguments as they stand in its memory now,
// which the process may have overwritten; at most 64 KiB of them.
// Zombies and kernel threads have none: that is no error.
func (p *Process) Cmdline() ([]string, error) {
	fd, err := openAt(p.memoryDir(), fileCmd)
	if err != nil {
		return nil, p.wrap("open", "cmdline", err)
	}
	f := &fdReader{fd}
	defer f.close()
	data, err := io.ReadAll(io.LimitReader(f, maxCmdline))
	if err != nil {
		return nil, p.wrap("read", "cmdline", err)
	}
	return parseCmdline(data), nil
}

// CommandLine is Cmdline as one string, with blanks between the arguments; at
// most 32 KiB of it. It allocates nothing where the line is what it was when it
// was last asked for.
func (p *Process) CommandLine() (string, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readFrom(p.memoryDir(), fileCmd, buf[:])
	if err != nil {
		return "", err
	}
	data = bytes.TrimRight(data, "\x00")
	for i, c := range data {
		if c == 0 {
			data[i] = ' '
		}
	}
	if string(data) != p.line {
		p.line = string(data)
	}
	return p.line, nil
}

// parseCmdline splits at NULs, the last of which ends the last argument.
func parseCmdline(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}
