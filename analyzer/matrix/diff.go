package matrix

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/procfs"
)

// State says what became of a process from one snapshot to the other.
type State string

// The states of a Change.
const (
	Stayed  State = "stayed"
	Started State = "started"
	Ended   State = "ended"
	// Unknown: its memory could not be read in one of them, so that nothing can
	// be said of its growth.
	Unknown State = "unknown"
)

// Delta is how much was used before and after.
type Delta struct{ Before, After uint64 }

// Growth is the difference, negative where less is used.
func (d Delta) Growth() int64 { return int64(d.After) - int64(d.Before) }

func (d *Delta) add(o Delta) {
	d.Before += o.Before
	d.After += o.After
}

// Deltas are the figures of one process or component.
type Deltas struct{ RSS, PSS, USS, Swap Delta }

// Of takes one of the figures.
func (d *Deltas) Of(by By) Delta {
	switch by {
	case PSS:
		return d.PSS
	case USS:
		return d.USS
	}
	return d.RSS
}

// zero reports whether nothing changed.
func (d *Deltas) zero() bool {
	return d.RSS.Growth() == 0 && d.PSS.Growth() == 0 && d.USS.Growth() == 0 && d.Swap.Growth() == 0
}

func (d *Deltas) add(o *Deltas) {
	d.RSS.add(o.RSS)
	d.PSS.add(o.PSS)
	d.USS.add(o.USS)
	d.Swap.add(o.Swap)
}

// Diff is what changed from snapshot A to snapshot B.
type Diff struct {
	A, B *snapshot.Snapshot
	// SameBoot: both are of one boot of one machine. Otherwise no process of
	// one can be in the other, and Processes has all as ended and as started.
	SameBoot   bool
	By         By
	Processes  []Change          // by growth of By, largest first
	Components []ComponentChange // likewise, over all processes that were read in both snapshots, or are in one only
	Total      Deltas            // of those processes
	Unknown    int               // processes of which nothing can be said
	Machine    []FigureChange    // of meminfo, in its order
}

// Change is what changed in one process. Before or After is nil where it is in
// one snapshot only.
type Change struct {
	snapshot.ID
	State         State
	Before, After *snapshot.Process
	Deltas
	Components []ComponentChange // those that changed, by growth
}

// Process is the process as it was last seen.
func (c *Change) Process() *snapshot.Process {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// ComponentChange is what changed in one component.
type ComponentChange struct {
	Kind procfs.Kind
	Name string
	// Inode tells apart shared segments of one name, on one boot; otherwise
	// components of one kind and name are one.
	Inode uint64
	Deltas
}

// FigureChange is what changed in a figure of the machine.
type FigureChange struct {
	Name string
	Delta
}

// Compare finds what changed from a to b, and sorts it by the growth of by.
func Compare(a, b *snapshot.Snapshot, by By) *Diff {
	d := &Diff{A: a, B: b, By: by, SameBoot: a.Machine.BootID == b.Machine.BootID && a.Machine.BootID != ""}
	all := newSums(d.SameBoot)
	for _, pair := range d.pairs() {
		c := d.compare(pair[0], pair[1])
		if c.State == Unknown {
			d.Unknown++
		} else {
			d.Total.add(&c.Deltas)
			all.addPair(d, pair)
		}
		d.Processes = append(d.Processes, c)
	}
	d.Components = all.changes(by)
	slices.SortStableFunc(d.Processes, func(x, y Change) int { return cmp.Compare(y.Of(by).Growth(), x.Of(by).Growth()) })
	d.Machine = figureChanges(a.Machine.After, b.Machine.Before)
	return d
}

// pairs matches processes by PID and start time. Both lists are in the order
// of PIDs.
func (d *Diff) pairs() (out [][2]*snapshot.Process) {
	i, j, a, b := 0, 0, d.A.Processes, d.B.Processes
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i].ID == b[j].ID && d.SameBoot:
			out = append(out, [2]*snapshot.Process{&a[i], &b[j]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && a[i].PID <= b[j].PID:
			out = append(out, [2]*snapshot.Process{&a[i], nil})
			i++
		default:
			out = append(out, [2]*snapshot.Process{nil, &b[j]})
			j++
		}
	}
	return out
}

func (d *Diff) compare(before, after *snapshot.Process) Change {
	c := Change{Before: before, After: after, State: Stayed}
	switch {
	case before == nil:
		c.ID, c.State = after.ID, Started
	case after == nil:
		c.ID, c.State = before.ID, Ended
	default:
		c.ID = after.ID
	}
	if !known(before) || !known(after) {
		c.State = Unknown
		return c
	}
	sums := newSums(d.SameBoot)
	if before != nil {
		c.addBefore(&before.Usage)
		sums.add(d.A, before, false)
	}
	if after != nil {
		c.addAfter(&after.Usage)
		sums.add(d.B, after, true)
	}
	c.Components = sums.changes(d.By)
	return c
}

// known reports whether the figures are there; a process that isn't has none.
func known(p *snapshot.Process) bool { return p == nil || p.Access == snapshot.Known }

func (d *Deltas) addBefore(u *snapshot.Usage) {
	d.RSS.Before, d.PSS.Before, d.USS.Before, d.Swap.Before = u.RSS, u.PSS, u.USS, u.Swap
}

func (d *Deltas) addAfter(u *snapshot.Usage) {
	d.RSS.After, d.PSS.After, d.USS.After, d.Swap.After = u.RSS, u.PSS, u.USS, u.Swap
}

// componentKey is what makes a component of two snapshots the same.
type componentKey struct {
	kind  procfs.Kind
	name  string
	inode uint64
}

// sums adds up what is used of each component before and after.
type sums struct {
	sameBoot bool
	of       map[componentKey]*Deltas
}

func newSums(sameBoot bool) *sums {
	return &sums{sameBoot, make(map[componentKey]*Deltas)}
}

func (s *sums) addPair(d *Diff, pair [2]*snapshot.Process) {
	if pair[0] != nil {
		s.add(d.A, pair[0], false)
	}
	if pair[1] != nil {
		s.add(d.B, pair[1], true)
	}
}

func (s *sums) add(in *snapshot.Snapshot, p *snapshot.Process, after bool) {
	for i := range p.Uses {
		u := &p.Uses[i]
		c := &in.Components[u.Component]
		key := componentKey{kind: c.Kind, name: c.Name}
		if s.sameBoot && c.Kind == procfs.KindShmem {
			key.inode = c.Inode
		}
		d := s.of[key]
		if d == nil {
			d = &Deltas{}
			s.of[key] = d
		}
		for _, f := range []struct {
			to *Delta
			v  uint64
		}{{&d.RSS, u.RSS}, {&d.PSS, u.PSS}, {&d.USS, u.USS}, {&d.Swap, u.Swap}} {
			if after {
				f.to.After += f.v
			} else {
				f.to.Before += f.v
			}
		}
	}
}

// changes lists the components that changed, by growth.
func (s *sums) changes(by By) []ComponentChange {
	var out []ComponentChange
	for key, d := range s.of {
		if !d.zero() {
			out = append(out, ComponentChange{key.kind, key.name, key.inode, *d})
		}
	}
	slices.SortFunc(out, func(x, y ComponentChange) int {
		return cmp.Or(cmp.Compare(y.Of(by).Growth(), x.Of(by).Growth()), strings.Compare(x.Name, y.Name),
			cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Inode, y.Inode))
	})
	return out
}

func figureChanges(before, after []snapshot.Figure) []FigureChange {
	var out []FigureChange
	for _, f := range after {
		if was, ok := snapshot.Find(before, f.Name); ok {
			out = append(out, FigureChange{f.Name, Delta{was, f.Value}})
		}
	}
	return out
}
