//go:build linux && !viewer

package analyzer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// Untraced makes a Report of leak checks of processes that were never traced.
type Untraced struct {
	began  time.Time
	report report.Report
}

// UntracedOptions say what Add is to show.
type UntracedOptions struct {
	Paused    time.Duration // for which the process stood still; 0: it ran
	Registers bool          // were read
	Contents  bool          // show what leaked blocks begin with
}

// NewUntraced makes an empty one.
func NewUntraced(began time.Time) *Untraced {
	return &Untraced{began: began, report: report.Report{
		Schema: report.Schema, Final: true, Tracer: report.TracerInfo{Attach: report.NotTraced, Faults: "off", Unwind: "none"},
		Processes: []report.Process{}, Sites: []report.Site{}, Leaks: []report.Leak{}, Warnings: []string{},
	}}
}

// Add adds a process that was checked.
func (u *Untraced) Add(p *procfs.Process, info ProcessInfo, r *heapwalk.Result, o UntracedOptions) error {
	first := len(u.report.Sites) // ID of the process's first group
	id := len(u.report.Processes) + 1
	leaks := leaksByGroup(r)
	var residency Residency
	res, err := residency.Measure(p, nil, len(r.Heap.Groups)+len(leaks.keys), leaks.sites(r.Heap))
	if err != nil {
		return err
	}
	leaks.split(&res, len(r.Heap.Groups))
	for i, g := range r.Heap.Groups {
		s := report.Site{ID: first + i, Process: id, PID: p.PID(), Stack: []*report.Frame{}, SizeHistogram: [][2]uint64{},
			LiveBytes: g.Live.Bytes, LiveCount: g.Live.Count, PeakLiveBytes: g.Live.Bytes,
			Group: &report.BlockGroup{Size: g.Size, Class: g.Class.String(), Type: g.Type, Module: g.Module}}
		if i < len(res.Sites) {
			s.ResidentBytes, s.UntouchedBytes, s.SwappedBytes = res.Sites[i].Resident, res.Sites[i].Untouched, res.Sites[i].Swapped
		}
		u.report.Sites = append(u.report.Sites, s)
	}
	u.addProcess(info, r, &res, o)
	u.warn(info, r, o)
	return u.addLeaks(p, r, report.Leak{Site: first, Process: id}, leaks.pages, o)
}

// untracedLeaks are the leaks of a process by group and kind.
type untracedLeaks struct {
	keys  []heapwalk.SampleKey
	of    map[uint64]uint32 // index of keys by a leaked block's address
	pages map[heapwalk.SampleKey]SiteMemory
}

func leaksByGroup(r *heapwalk.Result) untracedLeaks {
	u := untracedLeaks{of: make(map[uint64]uint32, len(r.Leaks)), pages: make(map[heapwalk.SampleKey]SiteMemory)}
	known := make(map[heapwalk.SampleKey]uint32)
	for _, l := range r.Leaks {
		key := heapwalk.SampleKey{Group: l.Group, Kind: l.Kind}
		k, ok := known[key]
		if !ok {
			k = uint32(len(u.keys))
			known[key] = k
			u.keys = append(u.keys, key)
		}
		u.of[l.Addr] = k
	}
	return u
}

// sites yields the blocks by group; those of each leak have a site of their own
// behind the groups.
func (u *untracedLeaks) sites(h *heapwalk.Heap) Blocks {
	return func(yield func(addr, size uint64, site uint32) bool) {
		for b := range h.All {
			site := b.Group()
			if k, ok := u.of[b.Addr]; ok {
				site = uint32(len(h.Groups)) + k
			}
			if !yield(b.Addr, b.Size(), site) {
				return
			}
		}
	}
}

// split takes what the leaks hold out of what was measured, and adds it to
// their groups.
func (u *untracedLeaks) split(res *Residence, groups int) {
	for k, key := range u.keys {
		if groups+k >= len(res.Sites) {
			return
		}
		u.pages[key] = res.Sites[groups+k]
		res.Sites[key.Group].add(u.pages[key])
	}
	res.Sites = res.Sites[:groups]
}

func (u *Untraced) addProcess(info ProcessInfo, r *heapwalk.Result, res *Residence, o UntracedOptions) {
	h := r.Heap
	out := report.Process{
		ID: len(u.report.Processes) + 1, PID: int(info.PID), Comm: info.Comm, Exe: info.Exe, Attached: true, Allocators: append([]string{}, info.Allocators...),
		Usage: res.Usage, RSSBy: res.RSSBy,
		Heap: report.Heap{LiveBytes: h.Live.Bytes, LiveCount: h.Live.Count, PeakBytes: h.Live.Bytes,
			ResidentBytes: res.Blocks.Resident, UntouchedBytes: res.Blocks.Untouched, SwappedBytes: res.Blocks.Swapped},
		HeapWalk: &report.HeapWalk{
			Arenas: h.Arenas, SystemBytes: h.System, CoveredBytes: h.Covered, SkippedBytes: h.Skipped, FreeBytes: h.Free,
			CachedCount: h.Cached.Count, CachedBytes: h.Cached.Bytes, MappedCount: h.Mapped.Count, MappedBytes: h.Mapped.Bytes,
			UnfoundCount: h.Unfound.Count, UnfoundBytes: h.Unfound.Bytes, UnlistedCount: h.Unlisted,
			Looks: r.Looks, ClearedCount: r.Cleared.Count, ClearedBytes: r.Cleared.Bytes, TookNS: uint64(r.Took),
		},
		LeakCheck: &report.LeakCheck{
			When: string(CheckRunning), Scans: r.Scans, Registers: o.Registers, RootBytes: r.Scan.Roots, AllocatorBytes: r.Scan.Own, ReadBytes: r.Scan.Read,
			UnreadBytes: r.Scan.Unread, SwappedBytes: r.Scan.Swapped, TookNS: uint64(r.Scan.Took), PauseNS: uint64(o.Paused),
			LongestHoldNS: uint64(r.LongestStep), Reachable: sumOf(r.Scan.Sums[reach.Reachable]), ReachableBy: reachableBy(func(kind reach.RootKind) report.LeakSum { return sumOf(r.Scan.ByRoots[kind]) }),
		},
	}
	if o.Paused > 0 {
		out.LeakCheck.When = string(CheckStopped)
	}
	now := uint64(max(time.Since(u.began), 1))
	out.Usage.SampledNS, out.Heap.CorrelatedNS, out.Heap.PeakAtNS = now, now, now
	u.report.Processes = append(u.report.Processes, out)
}

// warn says what is not known of a process's heap.
func (u *Untraced) warn(info ProcessInfo, r *heapwalk.Result, o UntracedOptions) {
	add := func(format string, args ...any) {
		u.report.Warnings = append(u.report.Warnings, fmt.Sprintf("process %d: ", info.PID)+fmt.Sprintf(format, args...))
	}
	h := r.Heap
	if h.Skipped > 0 {
		add("%s of its heap could not be gone through (overwritten, of others, or changing all the time): blocks there are not known, and what stands there counts as pointers",
			report.HumanBytes(float64(h.Skipped)))
	}
	if h.Unfound.Count > 0 {
		add("%d blocks of %s with mappings of their own were not found: what stands there counts as pointers",
			h.Unfound.Count, report.HumanBytes(float64(h.Unfound.Bytes)))
	}
	if h.Unlisted > 0 {
		add("%d lists of freed blocks changed all the time or are corrupt: small blocks that may be freed are not called leaked", h.Unlisted)
	}
	if info.GoHeap {
		add("its C heap alone was checked: what Go's own heap holds, and what of it grows, memtrace -p %d shows", info.PID)
	}
	if !o.Registers {
		add("registers were not looked at for pointers")
	}
}

// addLeaks sums the leaks up by group and kind. of has the process and the site of its first group.
func (u *Untraced) addLeaks(p *procfs.Process, r *heapwalk.Result, of report.Leak, pages map[heapwalk.SampleKey]SiteMemory, o UntracedOptions) error {
	sums := make(map[heapwalk.SampleKey]*report.Leak)
	check := &input.Verdicts{Scans: r.Scans, ApartNS: uint64(r.Apart), Still: o.Paused > 0, Registers: o.Registers, Roots: r.Scan.Roots, Unread: r.Scan.Unread}
	for _, l := range r.Leaks {
		key := heapwalk.SampleKey{Group: l.Group, Kind: l.Kind}
		if sums[key] == nil {
			m := pages[key]
			sums[key] = &report.Leak{Site: of.Site + int(l.Group), Process: of.Process, PID: p.PID(), Kind: l.Kind.String(), Confidence: confidence(check), Why: why(check, input.LeakKind(l.Kind)),
				Pages: &report.LeakPages{Resident: m.Resident, Untouched: m.Untouched, Swapped: m.Swapped}}
		}
		sums[key].Bytes += l.Size
		sums[key].Count++
	}
	if o.Contents {
		samples, err := r.Samples(p, 0)
		if err != nil {
			return err
		}
		for key, leak := range sums {
			for _, s := range samples[key] {
				leak.Samples = append(leak.Samples, report.LeakSample{Text: s.Text, Count: s.Count, Address: fmt.Sprintf("%#x", s.Addr)})
			}
		}
	}
	for _, leak := range sums {
		u.report.Leaks = append(u.report.Leaks, *leak)
	}
	return nil
}

// Report returns the Report with the top groups that hold most, and those of
// leaks; 0 means all.
func (u *Untraced) Report(top int) *report.Report {
	r := u.report
	order := []string{reach.Definite.String(), reach.Indirect.String(), reach.Possible.String()}
	slices.SortFunc(r.Leaks, func(x, y report.Leak) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Kind), slices.Index(order, y.Kind)),
			cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Site, y.Site))
	})
	leaking := make(map[int]bool)
	for _, l := range r.Leaks {
		leaking[l.Site] = true
	}
	slices.SortFunc(r.Sites, func(x, y report.Site) int {
		return cmp.Or(cmp.Compare(y.LiveBytes, x.LiveBytes), cmp.Compare(x.ID, y.ID))
	})
	kept := []report.Site{}
	for i := range r.Sites {
		s := &r.Sites[i]
		if s.LiveCount > 0 && (top == 0 || i < top) || leaking[s.ID] {
			kept = append(kept, *s)
		} else if s.LiveCount > 0 {
			r.LeaveOut(s)
		}
	}
	r.Sites = kept
	r.Identify()
	r.WindowNS = uint64(max(time.Since(u.began), 1))
	for _, p := range r.Processes {
		r.Notes = append(r.Notes, fmt.Sprintf("Process %d was not traced, so nobody knows where its blocks were allocated. "+
			"To see the call stacks of what it allocates and leaks from now on: memtrace -p %d --leaks -d 60s", p.PID, p.PID))
	}
	return &r
}
