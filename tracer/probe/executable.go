package probe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/memtrace/memtrace/procfs"
)

// Mapping is an executable mapping of a process.
type Mapping struct {
	Range
	Major, Minor uint32 // of the device, as maps shows it
	Inode        uint64 // 0: no file
	Path         string // without " (deleted)"; "[vdso]" and the like where there is no file
}

// Executable lists the executable mappings of a process, files and others, in
// order of address, but for the kernel's own ([vsyscall]). Code of a file that the process has moved to anonymous memory
// is listed as the file's. Root is where the proc file system is mounted.
func Executable(root string, pid int) ([]Mapping, error) {
	path := filepath.Join(memoryDir(root, pid), "maps")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("list the code of process %d: %w", pid, exited(err))
	}
	defer f.Close()
	out, err := executableIn(f)
	if err != nil {
		return nil, fmt.Errorf("list the code of process %d: %w", pid, exited(err))
	}
	return out, nil
}

// executableIn reads them line by line, as the whole text can take 256 MB.
func executableIn(maps io.Reader) (out []Mapping, err error) {
	lines := bufio.NewScanner(maps)
	lines.Buffer(make([]byte, 0, 4096), maxMapsLine)
	var names procfs.Names
	var before, last mapping // the two lines before, executable or not
	for lines.Scan() {
		m, executable, err := parseMapping(lines.Text())
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && out[n-1].Start == last.Start {
			out[n-1].restore(before, m)
		}
		before, last = last, m
		if !executable || int64(m.Start) < 0 {
			continue
		}
		if len(out) == maxMappings {
			return nil, fmt.Errorf("parse maps: more than %d executable mappings", maxMappings)
		}
		out = append(out, Mapping{m.Range, m.major, m.minor, m.inode, names.Of([]byte(m.path))})
		last.path = out[len(out)-1].Path
	}
	return out, lines.Err()
}

// restore gives code that a program has moved to anonymous memory, as for huge pages, back to its file: it lies between
// two parts of one file, of code or not, just where that has what is missing between them.
func (m *Mapping) restore(before, after mapping) {
	if m.Inode != 0 || m.Path != "" && !strings.HasPrefix(m.Path, "[anon:") ||
		before.inode == 0 || before.End != m.Start || m.End != after.Start {
		return
	}
	offset := before.Offset + (before.End - before.Start)
	if before.key() == after.key() && after.Offset == offset+(m.End-m.Start) {
		m.Offset, m.Major, m.Minor, m.Inode, m.Path = offset, before.major, before.minor, before.inode, before.path
	}
}

// Open opens the very file that is mapped at m in process pid.
func (m Mapping) Open(root string, pid int) (*os.File, error) {
	return openMapped(memoryDir(root, pid),
		mapping{Range: m.Range, major: m.Major, minor: m.Minor, inode: m.Inode, path: m.Path})
}
