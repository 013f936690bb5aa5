package export

import (
	"fmt"
	"math"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Kind names what is measured.
type Kind string

// The kinds, in the order in which formats with several list them.
const (
	Live      Kind = "live"      // allocated and not freed
	Peak      Kind = "peak"      // the most that each site held; sites peak at different times
	Allocated Kind = "allocated" // all that was ever allocated
	Freed     Kind = "freed"
	Temporary Kind = "temporary" // blocks freed before their thread allocated again: a count
	Leaked    Kind = "leaked"    // verdicts of a check: definite, indirect, possible
	Growing   Kind = "growing"   // live bytes of sites whose live bytes keep rising
	Resident  Kind = "resident"  // of live blocks, in memory
	Untouched Kind = "untouched" // of live blocks, never written
	Swapped   Kind = "swapped"
	Faults    Kind = "faults" // page faults: a count
	Mapped    Kind = "mapped" // live mappings made outside of the allocator
)

const (
	bytesUnit = "bytes"
	countUnit = "count"
)

// kinds says what each kind is. Its order is that of Stack.weights.
var kinds = [...]struct {
	kind        Kind
	unit        string
	title, what string
}{
	{Live, bytesUnit, "live", "block"},
	{Peak, bytesUnit, "peak of each site", "block"},
	{Allocated, bytesUnit, "allocated", "block"},
	{Freed, bytesUnit, "freed", "block"},
	{Temporary, countUnit, "temporary", "block"},
	{Leaked, bytesUnit, "leaked", "block"},
	{Growing, bytesUnit, "growing", "block"},
	{Resident, bytesUnit, "resident", "block"},
	{Untouched, bytesUnit, "untouched", "block"},
	{Swapped, bytesUnit, "swapped", "block"},
	{Faults, countUnit, "page faults", "fault"},
	{Mapped, bytesUnit, "mapped outside the allocator", "mapping"},
}

// Kinds lists the kinds, for help texts.
func Kinds() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, string(k.kind))
	}
	return out
}

// index is the place of a kind in kinds, -1 where there is no such kind.
func (k Kind) index() int {
	for i := range kinds {
		if kinds[i].kind == k {
			return i
		}
	}
	return -1
}

// counts reports whether the kind has no bytes, only a number of things.
func (k Kind) counts() bool { return kinds[k.index()].unit == countUnit }

// weight is what a stack has of a kind. A count of 0 means that it is not known
// where there are bytes.
type weight struct{ bytes, count uint64 }

func (w weight) plus(x weight) weight { return weight{add(w.bytes, x.bytes), add(w.count, x.count)} }

// add is a sum that stays at the largest number: a hostile file must not make it small.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// signed is a figure for formats that have int64 alone.
func signed(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// figure is the number by which a stack is drawn.
func (w weight) figure(k Kind) uint64 {
	if k.counts() {
		return w.count
	}
	return w.bytes
}

// stack is one call stack of one process, with what it has of each kind.
type stack struct {
	id        int  // of the site
	mapping   bool // made outside of the allocator: it has no number
	process   *report.Process
	pid       int
	frames    []*report.Frame // innermost first
	truncated bool
	name      string // of the function that it is named after, or what stands for it
	weights   [len(kinds)]weight
}

// total is the sum over stacks of one kind.
func total(stacks []stack, k Kind) (sum weight) {
	i := k.index()
	for j := range stacks {
		sum = sum.plus(stacks[j].weights[i])
	}
	return sum
}

// stacksOf turns a Report into stacks with weights: its sites, then the mappings
// made outside of the allocator.
func stacksOf(r *report.Report) []stack {
	processes := make(map[int]*report.Process, len(r.Processes))
	for i := range r.Processes {
		processes[r.Processes[i].ID] = &r.Processes[i]
	}
	leaks := leaksBySite(r)
	out := make([]stack, 0, len(r.Sites)+len(r.Regions))
	for i := range r.Sites {
		s := &r.Sites[i]
		one := stack{id: s.ID, process: processes[s.Process], pid: s.PID, name: nameless(s)}
		one.take(s.Stack, s.Truncated)
		one.weigh(s, leaks[s.ID])
		out = append(out, one)
	}
	for i := range r.Regions {
		g := &r.Regions[i]
		one := stack{mapping: true, process: processes[g.Process], pid: g.PID, name: g.Function}
		one.take(g.Stack, g.Truncated)
		one.weights[Mapped.index()] = weight{g.LiveBytes, g.LiveCount}
		out = append(out, one)
	}
	return out
}

// maxDepth bounds the frames of a stack in what is written: a browser's script that walks
// a deeper tree has no stack left itself.
const maxDepth = 2048

func (s *stack) take(frames []*report.Frame, truncated bool) {
	s.frames, s.truncated = frames, truncated
	if len(frames) > maxDepth {
		s.frames, s.truncated = frames[:maxDepth], true
	}
}

type leakOf struct {
	verdicts weight
	growing  bool
}

func leaksBySite(r *report.Report) map[int]leakOf {
	out := make(map[int]leakOf)
	for i := range r.Leaks {
		l := &r.Leaks[i]
		sum := out[l.Site]
		if report.IsVerdict(l.Kind) {
			sum.verdicts = sum.verdicts.plus(weight{l.Bytes, l.Count})
		}
		sum.growing = sum.growing || l.Growing || l.Kind == "growing"
		out[l.Site] = sum
	}
	return out
}

func (s *stack) weigh(site *report.Site, leak leakOf) {
	live := weight{site.LiveBytes, site.LiveCount}
	for k, w := range map[Kind]weight{
		Live:      live,
		Peak:      {bytes: site.PeakLiveBytes},
		Allocated: {site.AllocBytes, site.AllocCount},
		Freed:     {less(site.AllocBytes, site.LiveBytes), site.FreeCount},
		Temporary: {count: site.TemporaryCount},
		Leaked:    leak.verdicts,
		Resident:  {bytes: site.ResidentBytes},
		Untouched: {bytes: site.UntouchedBytes},
		Swapped:   {bytes: site.SwappedBytes},
		Faults:    {count: site.Faults},
	} {
		s.weights[k.index()] = w
	}
	if leak.growing {
		s.weights[Growing.index()] = live
	}
}

// less is a-b, and 0 where b is larger: of a process that was not traced, nothing is
// known of what it freed.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// nameless is what stands for the stack of blocks that have none.
func nameless(s *report.Site) string {
	g := s.Group
	switch {
	case g == nil:
		return s.Function
	case g.Type != "":
		return g.Type
	}
	return fmt.Sprintf("%s, blocks of %d B", g.Class, g.Size)
}
