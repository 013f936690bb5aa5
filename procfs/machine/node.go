package machine

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Node is the memory of one NUMA node.
type Node struct {
	ID int
	// Meminfo is /sys/devices/system/node/nodeN/meminfo, names as in
	// /proc/meminfo, sizes in bytes.
	Meminfo procfs.Counters
	// Numastat is nodeN/numastat: allocations since boot, in pages.
	Numastat procfs.Counters
}

const nodeDir = "devices/system/node"

// Nodes reads all NUMA nodes into nodes, which it extends as needed, and
// returns them. A kernel without NUMA is ErrNotSupported.
func (r *Reader) Nodes(nodes []Node) ([]Node, error) {
	ids, err := r.nodeIDs()
	if err != nil {
		return nil, err
	}
	for len(nodes) < len(ids) {
		nodes = append(nodes, Node{})
	}
	nodes = nodes[:len(ids)]
	for i, id := range ids {
		nodes[i].ID = id
		if err := r.node(&nodes[i]); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// maxNodes is the kernel's MAX_NUMNODES at its largest.
const maxNodes = 1024

// nodeIDs parses the list of nodes that are online, such as "0-1,3".
func (r *Reader) nodeIDs() ([]int, error) {
	const name = nodeDir + "/online"
	data, err := r.sys.Read(name)
	if err != nil {
		return nil, err
	}
	ids, err := parseList(bytes.TrimSpace(data), maxNodes)
	return ids, r.sys.Wrap(name, err)
}

// parseList parses the kernel's list format: "0-1,3". No number reaches limit.
func parseList(data []byte, limit uint64) (list []int, err error) {
	for len(data) > 0 {
		first, rest, ok := text.Decimal(data)
		last := first
		if ok && len(rest) > 0 && rest[0] == '-' {
			last, rest, ok = text.Decimal(rest[1:])
		}
		if !ok || last < first || last >= limit || len(list) > int(limit) {
			return nil, fmt.Errorf("%w: list %.80q", procfs.ErrFormat, data)
		}
		for v := first; v <= last; v++ {
			list = append(list, int(v))
		}
		if len(rest) > 0 && rest[0] != ',' {
			return nil, fmt.Errorf("%w: list %.80q", procfs.ErrFormat, data)
		}
		data = rest[min(1, len(rest)):]
	}
	return list, nil
}

func (r *Reader) node(n *Node) error {
	dir := nodeDir + "/node" + strconv.Itoa(n.ID)
	data, err := r.sys.Read(dir + "/meminfo")
	if err != nil {
		return err
	}
	if err := r.sys.Wrap(dir+"/meminfo", n.Meminfo.Parse(stripNode(data))); err != nil {
		return err
	}
	return counters(r.sys, dir+"/numastat", &n.Numastat)
}

// stripNode takes "Node 0 " off the beginning of each line, in place.
func stripNode(data []byte) []byte {
	out := data[:0]
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		if word, rest := text.Field(line); string(word) == "Node" {
			_, line = text.Field(rest)
		}
		out = append(out, line...)
		if len(data) > 0 { // so there was a newline, and there is room for it
			out = append(out, '\n')
		}
	}
	return out
}
