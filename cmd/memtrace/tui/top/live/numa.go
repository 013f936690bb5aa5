package live

import (
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// addNodes adds the machine's nodes and, where there is more than one, what
// each process has on each. With one there is nothing to walk for.
func (s *Source) addNodes(out *top.Snapshot, pass *collect.Pass) {
	nodes, err := s.machine.Nodes(s.nodes)
	if err != nil {
		out.Notes = append(out.Notes, "NUMA nodes: "+err.Error())
		return
	}
	s.nodes = nodes
	for i := range nodes {
		c := &nodes[i].Meminfo
		out.Nodes = append(out.Nodes, top.Node{
			ID: nodes[i].ID, Total: counterOf(c, "MemTotal"), Free: counterOf(c, "MemFree"), Used: counterOf(c, "MemUsed"),
			File: counterOf(c, "FilePages"), Anon: counterOf(c, "AnonPages"), Shmem: counterOf(c, "Shmem"), Slab: counterOf(c, "Slab"),
			HugeTotal: counterOf(c, "HugePages_Total"), HugeFree: counterOf(c, "HugePages_Free"),
		})
	}
	if len(nodes) == 1 {
		for i := range out.Processes {
			out.Processes[i].OnNode = []top.Figure{out.Processes[i].RSS}
		}
		return
	}
	s.onNodes.pass(s.fs, pass, &out.Cost, func(p *procfs.Process) ([]uint64, error) { return p.NUMA(nil) })
	for i, p := range pass.Processes {
		out.Processes[i].OnNode = s.onNode(p, len(nodes))
	}
}

// onNode is what a process has on each of the nodes.
func (s *Source) onNode(p *collect.Process, nodes int) []top.Figure {
	figures := make([]top.Figure, nodes)
	h := s.onNodes.processes[p.Identity]
	for i := range figures {
		switch {
		case h == nil: // a kernel thread
			figures[i].State = top.None
		case !h.known:
			figures[i].State = stateOf(h.outcome)
		default:
			figures[i] = top.Of(at(h.value, s.nodes[i].ID))
		}
	}
	return figures
}

// at is the figure of a node; those above the last one that has any are left
// out of numa_maps.
func at(byNode []uint64, id int) uint64 {
	if id < 0 || id >= len(byNode) {
		return 0
	}
	return byNode[id]
}
