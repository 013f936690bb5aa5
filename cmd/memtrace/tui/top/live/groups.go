package live

import (
	"fmt"
	"path"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs/cgroup"
)

// maxGroups bounds how many cgroups are read.
const maxGroups = 20_000

func (s *Source) addGroups(out *top.Snapshot) {
	if s.groups == nil {
		out.Notes = append(out.Notes, "cgroups: "+s.noGroups.Error())
		return
	}
	paths, err := s.groups.Groups()
	if err != nil {
		out.Notes = append(out.Notes, "cgroups: "+err.Error())
		return
	}
	if len(paths) > maxGroups {
		out.Notes = append(out.Notes, fmt.Sprintf("only %d of %d cgroups are read", maxGroups, len(paths)))
		paths = paths[:maxGroups]
	}
	if s.groups.Version() == 1 {
		out.Notes = append(out.Notes, "cgroup v1: it has no pressure, no events but OOM kills, and no high limit")
	}
	members := membersOf(out.Processes)
	out.Groups = make([]top.Group, 0, len(paths))
	var g cgroup.Group
	for _, p := range paths {
		if err := s.groups.Read(p, &g); err != nil {
			continue // it is gone
		}
		out.Groups = append(out.Groups, groupOf(&g, members[p]))
	}
}

// membersSum is what the processes of a cgroup, and of those below it, add up to.
type membersSum struct {
	processes, unknown int
	pss, uss           int64
}

// membersOf adds each process to its cgroup and to all above it.
func membersOf(processes []top.Process) map[string]*membersSum {
	all := make(map[string]*membersSum)
	spaces := make(map[uint64]bool)
	for i := range processes {
		p := &processes[i]
		if p.Cgroup == "" {
			continue
		}
		twin := p.Space != 0 && spaces[p.Space]
		spaces[p.Space] = true
		for at := path.Clean("/" + p.Cgroup); ; at = path.Dir(at) {
			m := all[at]
			if m == nil {
				m = new(membersSum)
				all[at] = m
			}
			m.add(p, twin)
			if at == "/" {
				break
			}
		}
	}
	return all
}

func (m *membersSum) add(p *top.Process, twin bool) {
	m.processes++
	switch {
	case twin || p.PSS.State == top.None:
	case !p.PSS.Known():
		m.unknown++
	default:
		m.pss += p.PSS.N
		m.uss += p.USS.N
	}
}

func groupOf(g *cgroup.Group, m *membersSum) top.Group {
	if m == nil {
		m = new(membersSum)
	}
	out := top.Group{
		Path: g.Path, Container: cgroup.Label(g.Path), Depth: strings.Count(g.Path, "/"), Processes: top.Of(m.processes),
		Current: sizeOf(g.Current), Max: sizeOf(g.Max), High: sizeOf(g.High), Peak: sizeOf(g.Peak),
		Working: sizeOf(g.WorkingSet()), Swap: sizeOf(g.SwapCurrent),
		Anon: statOf(g, "anon", "total_rss"), File: statOf(g, "file", "total_cache"), Kernel: statOf(g, "kernel", "slab"),
		Some: perCent(g.Pressure.Some.Avg10, g.PressureOutcome), Full: perCent(g.Pressure.Full.Avg10, g.PressureOutcome),
		OOM: eventOf(g, "oom"), Killed: eventOf(g, "oom_kill"),
		PSS: top.Of(m.pss), USS: top.Of(m.uss), UnknownIn: m.unknown,
	}
	// A page that only processes of the group share is in nobody's USS and
	// would be freed too: the sum is exact only where nothing is shared.
	out.Shares = m.uss != m.pss
	if m.unknown > 0 && m.unknown == m.processes {
		out.PSS, out.USS = top.Figure{State: top.Denied}, top.Figure{State: top.Denied}
	}
	return out
}

func sizeOf(v cgroup.Value) top.Figure {
	if v.Unlimited && v.Outcome.Ok() {
		return top.Figure{State: top.None}
	}
	return figure(v.Bytes, v.Outcome)
}

// statOf takes the first of the names that the kernel has.
func statOf(g *cgroup.Group, names ...string) top.Figure {
	if !g.StatOutcome.Ok() {
		return top.Figure{State: stateOf(g.StatOutcome)}
	}
	for _, name := range names {
		if v, ok := g.Stat.Get(name); ok {
			return top.Of(v)
		}
	}
	return top.Figure{State: top.Unsupported}
}

func eventOf(g *cgroup.Group, name string) top.Figure {
	if !g.EventsOutcome.Ok() {
		return top.Figure{State: stateOf(g.EventsOutcome)}
	}
	return counterOf(&g.Events, name)
}
