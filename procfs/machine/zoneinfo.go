package machine

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/text"
)

// NodeStats are the figures of one NUMA node in /proc/zoneinfo.
type NodeStats struct {
	ID    int
	Stats procfs.Counters // nr_* in pages, others in events since boot
	Zones []Zone
}

// Zone is a part of a node, such as DMA32 or Normal. Figures are in pages.
type Zone struct {
	Name           string
	Free           uint64
	Min, Low, High uint64 // watermarks: background reclaim begins below Low
	Managed        uint64
	PerCPU         uint64 // free, in lists of the CPUs; not in Free
}

// Zoneinfo reads /proc/zoneinfo into nodes, which it extends as needed. It
// takes a lock of each zone for a moment.
func (r *Reader) Zoneinfo(nodes []NodeStats) ([]NodeStats, error) {
	const name = "zoneinfo"
	data, err := r.proc.Read(name)
	if err != nil {
		return nil, err
	}
	nodes, err = parseZoneinfo(data, nodes)
	return nodes, r.proc.Wrap(name, err)
}

var (
	nodeLine    = []byte("Node ")
	perNodeLine = []byte("  per-node stats")
	statIndent  = []byte("      ")
)

// parseZoneinfo parses, for each zone, a line "Node 0, zone  DMA", the node's
// figures under "per-node stats" (in the node's first zone only), and the
// zone's own lines.
func parseZoneinfo(data []byte, nodes []NodeStats) ([]NodeStats, error) {
	nodes = nodes[:0]
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		if bytes.HasPrefix(line, nodeLine) {
			var err error
			if nodes, err = beginZone(line, nodes); err != nil {
				return nil, err
			}
			continue
		}
		if len(nodes) == 0 {
			return nil, fmt.Errorf("%w: line %.80q before any node", procfs.ErrFormat, line)
		}
		n := &nodes[len(nodes)-1]
		if bytes.HasPrefix(line, perNodeLine) {
			stats := indented(data)
			if err := n.Stats.Parse(stats); err != nil {
				return nil, err
			}
			data = data[len(stats):]
			continue
		}
		n.Zones[len(n.Zones)-1].take(line)
	}
	return nodes, nil
}

// beginZone takes a line "Node 0, zone   Normal".
func beginZone(line []byte, nodes []NodeStats) ([]NodeStats, error) {
	id, rest, ok := text.Decimal(line[len(nodeLine):])
	comma, rest := text.Field(rest)
	word, rest := text.Field(rest)
	name, _ := text.Field(rest)
	if !ok || id >= maxNodes || string(comma) != "," || string(word) != "zone" || len(name) == 0 {
		return nil, fmt.Errorf("%w: line %.80q", procfs.ErrFormat, line)
	}
	if len(nodes) == 0 || nodes[len(nodes)-1].ID != int(id) {
		if len(nodes) >= maxNodes {
			return nil, fmt.Errorf("%w: too many nodes", procfs.ErrFormat)
		}
		if len(nodes) < cap(nodes) { // with what it holds from last time
			nodes = nodes[:len(nodes)+1]
		} else {
			nodes = append(nodes, NodeStats{})
		}
		n := &nodes[len(nodes)-1]
		n.ID, n.Zones = int(id), n.Zones[:0]
	}
	n := &nodes[len(nodes)-1]
	n.Zones = append(n.Zones, Zone{Name: zoneName(name)})
	return nodes, nil
}

// zoneName avoids a copy for the names that there are.
func zoneName(name []byte) string {
	for _, known := range [...]string{"DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"} {
		if string(name) == known {
			return known
		}
	}
	return string(name)
}

// indented returns the lines at the start of data that are indented as figures are.
func indented(data []byte) []byte {
	end := 0
	for bytes.HasPrefix(data[end:], statIndent) {
		line, _ := text.CutLine(data[end:])
		end = min(len(data), end+len(line)+1)
	}
	return data[:end]
}

// take takes a line of a zone, such as "        min      8" or "  pages free     3840".
func (z *Zone) take(line []byte) {
	word, rest := text.Field(line)
	if string(word) == "pages" {
		word, rest = text.Field(rest)
	}
	v, _, ok := text.Decimal(text.SkipBlanks(rest))
	if !ok {
		return
	}
	switch string(word) {
	case "free":
		z.Free = v
	case "min":
		z.Min = v
	case "low":
		z.Low = v
	case "high":
		z.High = v
	case "managed":
		z.Managed = v
	case "count:":
		z.PerCPU += v
	}
}
