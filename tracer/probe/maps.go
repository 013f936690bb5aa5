package probe

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/procfs"
)

// Limits on what is read of /proc/PID/maps.
const (
	maxMapsLine = 64 << 10
	maxMappings = 1 << 18
)

// mapping is an executable file mapping, a line of /proc/PID/maps (see
// proc_pid_maps(5)).
type mapping struct {
	Range
	major, minor uint32
	inode        uint64
	path         string // unescaped, without " (deleted)"
}

// key identifies a file as maps does.
type fileKey struct {
	major, minor uint32
	inode        uint64
}

func (m mapping) key() fileKey {
	return fileKey{m.major, m.minor, m.inode}
}

// parseMaps reads the executable file mappings. Any says whether there was
// a line at all.
func parseMaps(r io.Reader) (out []mapping, any bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxMapsLine)
	var names procfs.Names
	for lines.Scan() {
		any = true
		m, executable, err := parseMapping(lines.Text())
		if err != nil {
			return nil, any, err
		}
		if !executable || m.inode == 0 {
			continue
		}
		if len(out) == maxMappings {
			return nil, any, fmt.Errorf("parse maps: more than %d executable mappings", maxMappings)
		}
		m.path = names.Of([]byte(m.path)) // which keeps no line
		out = append(out, m)
	}
	return out, any, lines.Err()
}

// parseMapping parses one line: start-end perms offset major:minor inode path.
func parseMapping(line string) (m mapping, executable bool, err error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 {
		return m, false, fmt.Errorf("parse maps: line %q has too few fields", line)
	}
	start, end, _ := strings.Cut(fields[0], "-")
	major, minor, _ := strings.Cut(fields[3], ":")
	var firstErr error
	number := func(s string, base, bits int) uint64 {
		n, err := strconv.ParseUint(s, base, bits)
		if err != nil && firstErr == nil {
			firstErr = fmt.Errorf("parse maps: line %q: %w", line, err)
		}
		return n
	}
	m.Start, m.End, m.Offset = number(start, 16, 64), number(end, 16, 64), number(fields[2], 16, 64)
	m.major, m.minor = uint32(number(major, 16, 32)), uint32(number(minor, 16, 32))
	m.inode = number(fields[4], 10, 64)
	if len(fields) == 6 {
		path := strings.TrimSuffix(strings.TrimLeft(fields[5], " "), " (deleted)")
		m.path = strings.ReplaceAll(path, `\012`, "\n") // the one character that the kernel escapes
	}
	return m, strings.Contains(fields[1], "x"), firstErr
}
