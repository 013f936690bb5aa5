package matrix

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/procfs"
)

// PageTable is what a snapshot knows page by page, added up. Counts are pages.
type PageTable struct {
	PageSize uint64
	Rows     []PageRow    // by USS, descending; those that were not read last
	Columns  []PageColumn // by distinct frames, descending
	// Distinct is how many frames the processes hold altogether, each counted
	// once; Unknown is how many of them have no count and flags.
	Distinct, Unknown uint64
	ByFlags           []FlagCount // page-types' table: by pages, descending
	ByMapped          []MapCount  // ascending by how often a frame is mapped
}

// PageRow is one process, by its pages rather than by the kernel's sums.
type PageRow struct {
	*snapshot.Process
	Access snapshot.Access
	Why    string
	RSS    uint64
	USS    uint64  // frames that are mapped once
	PSS    float64 // each page divided by how often its frame is mapped
	// Unknown is how many pages' counts are not known; they are in RSS alone.
	Unknown uint64
}

// PageColumn is one component.
type PageColumn struct {
	*snapshot.Component
	Pages  uint64 // over all processes, shared ones once for each
	Frames uint64 // each once: what the component really holds of the machine's memory by these processes
}

// FlagCount is how many frames have exactly these flags.
type FlagCount struct {
	Flags  uint64
	Frames uint64
}

// MapCount is how many frames are mapped so often.
type MapCount struct {
	Mapped uint32
	Frames uint64
}

// NewPages adds up a snapshot's pages; nil where it has none.
func NewPages(s *snapshot.Snapshot) *PageTable {
	if s.Pages == nil {
		return nil
	}
	t := &PageTable{PageSize: s.Machine.PageSize}
	for i := range s.Pages.Processes {
		t.Rows = append(t.Rows, pageRow(s, &s.Pages.Processes[i]))
	}
	slices.SortStableFunc(t.Rows, func(a, b PageRow) int {
		return cmp.Or(cmp.Compare(a.Access, b.Access), cmp.Compare(b.USS, a.USS), cmp.Compare(b.RSS, a.RSS))
	})
	t.Columns = pageColumns(s)
	t.Distinct = distinct(allRuns(s))
	t.countFrames(s.Pages.Frames)
	return t
}

func pageRow(s *snapshot.Snapshot, p *snapshot.ProcessPages) PageRow {
	row := PageRow{Process: &s.Processes[p.Process], Access: p.Access, Why: p.Why}
	for _, r := range p.Runs {
		row.RSS += uint64(r.Count)
		known := uint64(0)
		eachFrame(s.Pages.Frames, r, func(f *snapshot.FrameRun, n uint64) {
			known += n
			if f.Flags&uint64(procfs.FrameZero) != 0 {
				row.RSS -= n // no RSS counts the page of zeroes; kernels before 6.7 don't tell it from others
				return
			}
			row.PSS += float64(n) / float64(max(f.Mapped, 1))
			if f.Mapped <= 1 { // none at all: it was unmapped before its count was read
				row.USS += n
			}
		})
		row.Unknown += uint64(r.Count) - known
	}
	return row
}

// eachFrame calls fn for the parts of a run whose frames are known.
func eachFrame(frames []snapshot.FrameRun, r snapshot.PageRun, fn func(f *snapshot.FrameRun, n uint64)) {
	end := r.Frame + uint64(r.Count)
	i, _ := slices.BinarySearchFunc(frames, r.Frame, func(f snapshot.FrameRun, frame uint64) int {
		if f.First+uint64(f.Count) <= frame {
			return -1
		}
		return 1
	})
	for ; i < len(frames) && frames[i].First < end; i++ {
		f := &frames[i]
		fn(f, min(end, f.First+uint64(f.Count))-max(r.Frame, f.First))
	}
}

// frameRange is a range of frames.
type frameRange struct{ first, end uint64 }

func allRuns(s *snapshot.Snapshot) []frameRange {
	var out []frameRange
	for i := range s.Pages.Processes {
		for _, r := range s.Pages.Processes[i].Runs {
			out = append(out, frameRange{r.Frame, r.Frame + uint64(r.Count)})
		}
	}
	return out
}

// distinct counts the frames of ranges, each once.
func distinct(ranges []frameRange) (n uint64) {
	slices.SortFunc(ranges, func(a, b frameRange) int { return cmp.Compare(a.first, b.first) })
	end := uint64(0)
	for _, r := range ranges {
		if from := max(r.first, end); r.end > from {
			n += r.end - from
			end = r.end
		}
	}
	return n
}

func pageColumns(s *snapshot.Snapshot) []PageColumn {
	ranges := make(map[uint32][]frameRange)
	for i := range s.Pages.Processes {
		for _, r := range s.Pages.Processes[i].Runs {
			ranges[r.Component] = append(ranges[r.Component], frameRange{r.Frame, r.Frame + uint64(r.Count)})
		}
	}
	var out []PageColumn
	for component, list := range ranges {
		c := PageColumn{Component: &s.Components[component], Frames: distinct(list)}
		for _, r := range list {
			c.Pages += r.end - r.first
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b PageColumn) int {
		return cmp.Or(cmp.Compare(b.Frames, a.Frames), cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Inode, b.Inode))
	})
	return out
}

// countFrames makes the tables of flags and of map counts.
func (t *PageTable) countFrames(frames []snapshot.FrameRun) {
	flags, mapped := make(map[uint64]uint64), make(map[uint32]uint64)
	known := uint64(0)
	for _, f := range frames {
		known += uint64(f.Count)
		flags[f.Flags] += uint64(f.Count)
		mapped[f.Mapped] += uint64(f.Count)
	}
	t.Unknown = t.Distinct - min(known, t.Distinct)
	for f, n := range flags {
		t.ByFlags = append(t.ByFlags, FlagCount{f, n})
	}
	slices.SortFunc(t.ByFlags, func(a, b FlagCount) int {
		return cmp.Or(cmp.Compare(b.Frames, a.Frames), cmp.Compare(a.Flags, b.Flags))
	})
	for m, n := range mapped {
		t.ByMapped = append(t.ByMapped, MapCount{m, n})
	}
	slices.SortFunc(t.ByMapped, func(a, b MapCount) int { return cmp.Compare(a.Mapped, b.Mapped) })
}
