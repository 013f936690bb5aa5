package cgroup

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/text"
)

// NodeFigure is one figure of a group for each NUMA node.
type NodeFigure struct {
	Name  string
	Nodes []uint64 // by node ID; bytes in version 2, pages in version 1
}

// maxFigures bounds memory.numa_stat, which has about 30 lines.
const maxFigures = 256

// NUMA reads a group's memory.numa_stat (version 2 since Linux 5.10).
func (h *Hierarchy) NUMA(group string) ([]NodeFigure, error) {
	dir, err := below(group)
	if err != nil {
		return nil, err
	}
	name := dir + "memory.numa_stat"
	data, err := h.files.Read(name)
	if err != nil {
		return nil, err
	}
	figures, err := parseNUMA(data)
	return figures, h.files.Wrap(name, err)
}

// parseNUMA parses lines "anon N0=123 N1=4" (version 2) and "anon=127 N0=123
// N1=4" (version 1).
func parseNUMA(data []byte) (figures []NodeFigure, err error) {
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		name, rest := text.Field(line)
		if i := bytes.IndexByte(name, '='); i >= 0 {
			name = name[:i]
		}
		nodes, ok := parseNodes(rest)
		if !ok || len(name) == 0 || len(figures) >= maxFigures {
			return nil, fmt.Errorf("%w: line %.80q", procfs.ErrFormat, line)
		}
		figures = append(figures, NodeFigure{Name: string(name), Nodes: nodes})
	}
	return figures, nil
}

// maxNodes is the kernel's MAX_NUMNODES at its largest.
const maxNodes = 1024

// parseNodes parses "N0=123 N1=4".
func parseNodes(rest []byte) (nodes []uint64, ok bool) {
	for {
		var f []byte
		f, rest = text.Field(rest)
		if len(f) == 0 {
			return nodes, true
		}
		id, after, ok := text.Decimal(f[1:])
		if !ok || f[0] != 'N' || id >= maxNodes || len(after) == 0 || after[0] != '=' {
			return nil, false
		}
		v, _, ok := text.Decimal(after[1:])
		if !ok {
			return nil, false
		}
		for uint64(len(nodes)) <= id {
			nodes = append(nodes, 0)
		}
		nodes[id] = v
	}
}
