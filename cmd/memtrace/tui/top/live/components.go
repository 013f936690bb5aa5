package live

import (
	"fmt"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// parts is what each component holds of one process.
type parts map[componentKey]procfs.Memory

type componentKey struct {
	name string
	kind procfs.Kind
}

// maxParts bounds the components of one process, and maxComponents those of
// all. What is beyond goes to one called otherParts.
const (
	maxParts      = 20_000
	maxComponents = 100_000
	otherParts    = "[all others]"
)

func (s *Source) addComponents(out *top.Snapshot, pass *collect.Pass) {
	s.parts.pass(s.fs, pass, &out.Cost, readParts)
	totals := make(map[componentKey]*componentTotal)
	refused, unread := 0, 0
	for _, h := range s.parts.processes {
		switch {
		case h.outcome == procfs.NoPermission:
			refused++
		case !h.known:
			unread++
		}
		addParts(totals, h.value)
	}
	out.Components = make([]top.Component, 0, len(totals))
	for key, t := range totals {
		m := &t.memory
		out.Components = append(out.Components, top.Component{
			Name: key.name, Kind: key.kind.String(), Processes: t.processes,
			RSS: top.Of(m.Rss), PSS: top.Of(m.Pss), USS: top.Of(m.USS()), Swap: top.Of(m.Swap),
		})
	}
	if refused+unread > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("without processes that may not be read (%d) or have not been read yet (%d)", refused, unread))
	}
}

// readParts sums a process's mappings up by component.
func readParts(p *procfs.Process) (parts, error) {
	of := make(parts)
	err := p.Smaps(func(v *procfs.VMA) { of.add(v) })
	return of, err
}

func (of parts) add(v *procfs.VMA) {
	if v.Rss == 0 && v.Swap == 0 {
		return
	}
	key := componentOf(v)
	sum, ok := of[key]
	if !ok && len(of) >= maxParts {
		key = componentKey{otherParts, procfs.KindOther}
		sum = of[key]
	}
	sum.Add(&v.Memory)
	of[key] = sum
}

// componentOf names what a mapping belongs to: its file, or its kind.
func componentOf(v *procfs.VMA) componentKey {
	name := string(v.Path)
	if name == "" || v.Kind == procfs.KindStack || v.Kind == procfs.KindHeap {
		name = "[" + v.Kind.String() + "]"
	}
	return componentKey{name, v.Kind}
}

// componentTotal is a component across processes.
type componentTotal struct {
	memory    procfs.Memory
	processes int
}

func addParts(totals map[componentKey]*componentTotal, of parts) {
	for key, m := range of {
		t := totals[key]
		if t == nil && len(totals) >= maxComponents {
			key = componentKey{otherParts, procfs.KindOther}
			t = totals[key]
		}
		if t == nil {
			t = new(componentTotal)
			totals[key] = t
		}
		t.memory.Add(&m)
		t.processes++
	}
}
