package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
)

// BySite is the grouping of a Report that has no groups: each site is a row.
const BySite = "site"

// BySize is the grouping by classes of sizes, to which stacks make no difference.
const BySize = "size"

// Groupings lists the words for Report.By.
func Groupings() []string { return []string{BySite, "function", "caller", "file", "module", BySize} }

// CheckGrouping returns an error that says why sites can't be grouped by a word.
func CheckGrouping(word string) error {
	switch {
	case word == "" || slices.Contains(Groupings(), word):
		return nil
	case word == "thread":
		return fmt.Errorf("thread: not known, as a call site's figures are those of all threads; of a recording, memtrace query FILE --by thread tells (by is one of %s)", strings.Join(Groupings(), ", "))
	case word == "type":
		return fmt.Errorf("type: not known, as an allocator is not told what a block is for; memtrace leaks -p PID of a process that is not "+
			"traced groups blocks by what they begin with (by is one of %s)", strings.Join(Groupings(), ", "))
	}
	return fmt.Errorf("%q is none of %s", word, strings.Join(Groupings(), ", "))
}

// NotNamedYet is the function of sites that a Report has no names of as there are too many at once.
const NotNamedYet = "[not named yet]"

// Group sums up the sites of a Report, those that it leaves out too, that have something
// in common: Report.By says what. Each site is in one group. Of a grouping by size, in which each
// allocation is in one, only the number of allocations is known, and JSON has no other figure.
type Group struct {
	Key            string `json:"key"`            // the function, file or module; "[…]" where there is none
	Size           uint64 `json:"size,omitempty"` // by size: the largest one of the group
	Sites          int    `json:"sites"`          // so many
	LiveBytes      uint64 `json:"live_bytes"`
	LiveCount      uint64 `json:"live_count"`
	AllocBytes     uint64 `json:"alloc_bytes"`
	AllocCount     uint64 `json:"alloc_count"`
	FreeCount      uint64 `json:"free_count"`
	TemporaryCount uint64 `json:"temporary_count"`
	ResidentBytes  uint64 `json:"resident_bytes"`
	UntouchedBytes uint64 `json:"untouched_bytes"`
	SwappedBytes   uint64 `json:"swapped_bytes"`
	Faults         uint64 `json:"faults"`
	GrowthBytes    int64  `json:"growth_bytes"`
	OldestNS       uint64 `json:"oldest_ns"` // age of the oldest live block
	// Estimate says how near the figures are; nil where they are exact.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// MarshalJSON leaves out what is not known of a group by size.
func (g Group) MarshalJSON() ([]byte, error) {
	if g.Key == sizeKey(g.Size) {
		return json.Marshal(sizeGroup{g.Key, g.Size, g.Sites, g.AllocCount})
	}
	type plain Group
	return json.Marshal(plain(g))
}

// sizeGroup is what is known of a group by size.
type sizeGroup struct {
	Key        string `json:"key"`
	Size       uint64 `json:"size"`
	Sites      int    `json:"sites"`
	AllocCount uint64 `json:"alloc_count"`
}

// GroupBy sums up the sites, all of which are listed, by a word of Groupings, and lists
// the first top groups, 0: all, in an order of --sort.
func (r *Report) GroupBy(by, word string, top int) {
	if by == "" || by == BySite {
		return
	}
	r.By = by
	at := make(map[string]int)
	group := func(key string) *Group {
		i, ok := at[key]
		if !ok {
			i = len(r.Groups)
			at[key] = i
			r.Groups = append(r.Groups, Group{Key: key})
		}
		return &r.Groups[i]
	}
	for i := range r.Sites {
		s := &r.Sites[i]
		if by == BySize {
			for _, bucket := range s.SizeHistogram {
				group(sizeKey(bucket[0])).addSize(bucket)
			}
			continue
		}
		group(s.GroupKey(by)).add(s)
	}
	r.sortGroups(word)
	if top > 0 {
		r.Groups, r.GroupsMore = limit(r.Groups, 0, top)
	}
}

// GroupKey is the name of the site's group, by function, caller, file or module; "[…]"
// where the stack says nothing of it.
func (s *Site) GroupKey(by string) string {
	frame := s.NamingFrame()
	if by == "function" || frame < 0 {
		return s.label(frame)
	}
	f := s.Stack[frame]
	switch {
	case by == "caller" && frame+1 < len(s.Stack):
		return s.label(frame + 1)
	case by == "caller":
		return "[no caller]"
	case by == "module" && f.Module != "":
		return f.Module
	case by == "file" && f.File != "":
		return f.File
	case f.Module != "":
		return "[no source file known in " + path.Base(f.Module) + "]"
	}
	return "[unknown]"
}

// NamingFrame is the index of the frame that gave the site its name, -1 without a stack.
// Of a Report that doesn't say it is the first whose function is the site's, else the innermost.
func (s *Site) NamingFrame() int {
	if len(s.Stack) == 0 {
		return -1
	}
	if i := s.FunctionFrame; i >= 0 && i < len(s.Stack) && s.Stack[i].Function == s.Function {
		return i
	}
	return max(0, slices.IndexFunc(s.Stack, func(f *Frame) bool { return f.Function == s.Function }))
}

// label is what a frame of the site is called: its function, or where it is.
func (s *Site) label(frame int) string {
	if frame < 0 {
		return s.Function
	}
	f := s.Stack[frame]
	if f.Nameless() && f.Module != "" {
		return fmt.Sprintf("[%s+%#x]", path.Base(f.Module), f.Offset)
	}
	return f.Function
}

func (g *Group) add(s *Site) {
	g.Sites += 1 + len(s.MergedIDs)
	g.LiveBytes += s.LiveBytes
	g.LiveCount += s.LiveCount
	g.AllocBytes += s.AllocBytes
	g.AllocCount += s.AllocCount
	g.FreeCount += s.FreeCount
	g.TemporaryCount += s.TemporaryCount
	g.ResidentBytes += s.ResidentBytes
	g.UntouchedBytes += s.UntouchedBytes
	g.SwappedBytes += s.SwappedBytes
	g.Faults += s.Faults
	g.GrowthBytes += s.GrowthBytes
	g.OldestNS = max(g.OldestNS, s.OldestNS)
	g.Estimate = g.Estimate.With(s.Estimate)
}

func (g *Group) addSize(bucket [2]uint64) {
	g.Size = bucket[0]
	g.Sites++
	g.AllocCount += bucket[1]
}

func sizeKey(largest uint64) string { return fmt.Sprintf("up to %d", largest) }

// groupKeys are the orders of --sort, of groups. A peak is known of sites alone.
var groupKeys = map[string]func(g *Group) int64{
	"live":     func(g *Group) int64 { return int64(g.LiveBytes) },
	"alloc":    func(g *Group) int64 { return int64(g.AllocBytes) },
	"count":    func(g *Group) int64 { return int64(g.AllocCount) },
	"resident": func(g *Group) int64 { return int64(g.ResidentBytes) },
	"growth":   func(g *Group) int64 { return g.GrowthBytes },
	"temp":     func(g *Group) int64 { return int64(g.TemporaryCount) },
	"faults":   func(g *Group) int64 { return int64(g.Faults) },
	"age":      func(g *Group) int64 { return int64(g.OldestNS) },
}

func (r *Report) sortGroups(word string) {
	key := groupKeys[word]
	if key == nil {
		key = groupKeys["live"]
	}
	slices.SortFunc(r.Groups, func(x, y Group) int {
		return cmp.Or(cmp.Compare(key(&y), key(&x)), cmp.Compare(y.LiveBytes, x.LiveBytes), cmp.Compare(y.AllocBytes, x.AllocBytes),
			cmp.Compare(y.AllocCount, x.AllocCount), cmp.Compare(x.Size, y.Size), cmp.Compare(x.Key, y.Key))
	})
}

// With adds up the errors of two sums of different blocks.
func (e *Estimate) With(o *Estimate) *Estimate {
	switch {
	case e == nil:
		return o
	case o == nil:
		return e
	}
	sum := func(a, b uint64) uint64 { return uint64(math.Round(math.Hypot(float64(a), float64(b)))) }
	return &Estimate{
		Samples: e.Samples + o.Samples, LiveSamples: e.LiveSamples + o.LiveSamples,
		LiveBytesSE: sum(e.LiveBytesSE, o.LiveBytesSE), LiveCountSE: sum(e.LiveCountSE, o.LiveCountSE),
		AllocBytesSE: sum(e.AllocBytesSE, o.AllocBytesSE), AllocCountSE: sum(e.AllocCountSE, o.AllocCountSE),
		FreeCountSE: sum(e.FreeCountSE, o.FreeCountSE),
	}
}
