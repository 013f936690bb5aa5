//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Cgroup returns the path of the process's control group for memory, relative
// to its hierarchy's mount, from /proc/PID/cgroup: that of the v1 hierarchy
// with the memory controller where there is one, else that of v2 (cgroups(7)).
// A zombie may have the root. Empty: the kernel has no such controller.
func (p *Process) Cgroup() (string, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readSmall(fileCgroup, buf[:])
	if err != nil {
		return "", err
	}
	path, err := parseCgroup(data)
	if err != nil {
		return "", p.wrap("parse", "cgroup", err)
	}
	if string(path) != p.cgroup {
		p.cgroup = string(path)
	}
	return p.cgroup, nil
}

// Cgroups lists the process's control groups in all hierarchies, each once. On
// version 1 a service may be in a group of its own in that of systemd alone.
func (p *Process) Cgroups() ([]string, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readSmall(fileCgroup, buf[:])
	if err != nil {
		return nil, err
	}
	var groups []string
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		fields := bytes.SplitN(line, []byte(":"), 3)
		if len(fields) < 3 {
			return nil, p.wrap("parse", "cgroup", fmt.Errorf("%w: line %.80q", ErrFormat, line))
		}
		if group := string(fields[2]); !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups, nil
}

// parseCgroup parses lines "hierarchy-ID:controllers:path". Neither of the
// first two holds a colon; a path may.
func parseCgroup(data []byte) (path []byte, err error) {
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		first := bytes.IndexByte(line, ':')
		second := bytes.IndexByte(line[first+1:], ':') + first + 1
		if first < 0 || second <= first {
			return nil, fmt.Errorf("%w: line %.80q", ErrFormat, line)
		}
		controllers := line[first+1 : second]
		switch {
		case hasController(controllers, "memory"):
			return line[second+1:], nil
		case len(controllers) == 0 && string(line[:first]) == "0":
			path = line[second+1:]
		}
	}
	return path, nil
}

// hasController looks for a word in a list with commas.
func hasController(list []byte, word string) bool {
	for len(list) > 0 {
		item := list
		if i := bytes.IndexByte(list, ','); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		if string(item) == word {
			return true
		}
	}
	return false
}
