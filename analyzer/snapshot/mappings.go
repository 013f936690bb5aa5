//go:build linux && !viewer

package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// readMappings reads the process's smaps and sums them by component, in steps
// that keep to the stall budget.
func (t *taking) readMappings(l *target) error {
	p := l.p
	r := &rows{names: t.names, at: make(map[int]int), wantSpans: t.Pages}
	pace := startPace(t.StallBudget, t.rest)
	err := l.proc.SmapsWhile(func(v *procfs.VMA) bool {
		r.add(v)
		return pace.step()
	})
	pace.end()
	p.Hold += pace.held
	if err == nil {
		err = pace.stopped
	}
	if err != nil {
		return err
	}
	p.Access, p.Why = Known, ""
	p.Uses = r.sorted()
	tables := p.Usage.Tables
	p.Usage = r.total
	p.Usage.Tables, p.Usage.PSSSummed = tables, true
	if t.StallBudget <= 0 || p.Hold+p.Predicted <= t.StallBudget {
		refinePSS(l, r.mappings)
	}
	if t.Pages {
		pages := t.readPages(l, r.spans)
		if pages.Access == gone {
			return fmt.Errorf("read the pages of process %d: %w", p.PID, procfs.ErrGone)
		}
		t.mu.Lock()
		t.pages[p] = pages
		t.mu.Unlock()
	}
	return nil
}

// refinePSS takes the process's PSS from smaps_rollup, which the kernel rounds
// once and not for each mapping, if nothing else has changed since.
func refinePSS(l *target, mappings int) {
	u := &l.p.Usage
	pace := startPace(0, nil)
	total, err := l.proc.SmapsRollup()
	pace.end()
	l.p.Hold += pace.held
	const rounding = 1 << 10 // less than this of each mapping
	if err != nil || total.Summed || total.Rss != u.RSS || total.Pss < u.PSS || total.Pss-u.PSS > uint64(mappings)*rounding {
		return
	}
	u.PSS, u.PSSSummed = min(total.Pss, u.RSS), false
}

// rows sums the mappings of a process by component.
type rows struct {
	names    *components
	uses     []Use
	at       map[int]int // component to place in uses
	total    Usage
	mappings int
	brought  int // bytes of names that no process before had

	wantSpans bool
	spans     []span // the mappings that have resident pages
}

func (r *rows) add(v *procfs.VMA) {
	r.mappings++
	component := r.names.index(v, &r.brought)
	i, ok := r.at[component]
	if !ok {
		i = len(r.uses)
		r.at[component] = i
		r.uses = append(r.uses, Use{Component: component})
	}
	u, uss, hugetlb := &r.uses[i], v.USS(), v.SharedHugetlb+v.PrivateHugetlb
	u.Mappings++
	u.Size += v.Size()
	u.RSS += v.Rss
	u.PSS += v.Pss
	u.USS += uss
	u.Swap += v.Swap
	u.Anon += v.Anonymous
	u.Hugetlb += hugetlb
	if r.wantSpans && v.Rss > 0 {
		r.spans = append(r.spans, span{v.Start, v.End, component})
	}
	sum := &r.total
	sum.Size += v.Size()
	sum.RSS += v.Rss
	sum.PSS += v.Pss
	sum.USS += uss
	sum.Swap += v.Swap
	sum.Anon += v.Anonymous
	sum.Hugetlb += hugetlb
}

func (r *rows) sorted() []Use {
	slices.SortFunc(r.uses, func(a, b Use) int { return cmp.Compare(a.Component, b.Component) })
	return r.uses
}

// components is the table of a snapshot's components, shared by all readers.
type components struct {
	mu   sync.Mutex
	list []Component
	at   map[string]int
	key  []byte
	max  int
	// bytes are those of the names so far; other is the place of what stands for
	// those that had no room, and full says that there is such.
	bytes int
	other int
	full  bool
}

// Bounds of the table: a process can map memfds by the million, and files by
// paths of 4,096 bytes. One process brings no more names than maxNamesOfOne, so that
// others still find room.
const (
	maxTableComponents = 1 << 20
	maxTableNames      = 64 << 20 // bytes
	maxNamesOfOne      = 4 << 20
)

// otherComponents stands for those beyond the bound.
var otherComponents = Component{Kind: procfs.KindOther, Name: "[more]"}

func newComponents() *components {
	return &components{at: make(map[string]int), max: maxTableComponents}
}

// index returns the component's place, which is new where it is. brought counts
// the bytes of names that came with a process.
func (c *components) index(v *procfs.VMA, brought *int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	device, inode := uint64(v.DevMajor)<<20|uint64(v.DevMinor), v.Inode
	if !hasFile(v.Kind) {
		device, inode = 0, 0
	}
	c.key = append(c.key[:0], byte(v.Kind))
	for i := range 8 {
		c.key = append(c.key, byte(device>>(8*i)), byte(inode>>(8*i)))
	}
	c.key = append(c.key, v.Path...)
	if i, ok := c.at[string(c.key)]; ok {
		return i
	}
	if len(c.list) >= c.max || c.bytes+len(v.Path) > maxTableNames || *brought+len(v.Path) > maxNamesOfOne {
		if !c.full {
			c.full, c.other = true, len(c.list)
			c.list = append(c.list, otherComponents)
		}
		return c.other
	}
	c.bytes += len(v.Path)
	*brought += len(v.Path)
	i := len(c.list)
	c.at[string(c.key)] = i
	c.list = append(c.list, Component{v.Kind, nameOf(v), device, inode})
	return i
}

// hasFile reports whether a kind of mapping is told apart by device and inode.
func hasFile(k procfs.Kind) bool {
	return k == procfs.KindFile || k == procfs.KindShmem || k == procfs.KindHugetlb
}

// nameOf is the component's name; anonymous memory has none of the kernel's.
func nameOf(v *procfs.VMA) string {
	if len(v.Path) == 0 {
		return "[" + v.Kind.String() + "]"
	}
	return string(v.Path)
}

// noticeable is a wait that a person wants to have explained.
const noticeable = time.Second

// rest waits without keeping a core from others.
func (t *taking) rest(wait time.Duration) error {
	if wait > noticeable {
		t.notice(1, wait)
	}
	<-t.cpu
	defer func() { t.cpu <- struct{}{} }()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.limited.Done():
		return context.Cause(t.limited)
	}
}
