//go:build linux && !viewer

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/memtrace/memtrace/procfs"
)

// span is a mapping whose pages are to be read.
type span struct {
	start, end uint64
	component  int
}

// scanChunk is how much address space is looked at between two looks at the
// clock: 1 GiB takes some µs, or 2.5 ms on kernels without PAGEMAP_SCAN.
const scanChunk = 1 << 30

var (
	errNoFrames = fmt.Errorf("pagemap gives no frame numbers: %w: run as root (it takes CAP_SYS_ADMIN)", os.ErrPermission)
	errTooMany  = errors.New("the pages lie in too many pieces")
)

// readPages reads which frames a process's pages are in. What was reached when
// an error came stands in the result.
func (t *taking) readPages(l *target, spans []span) *ProcessPages {
	pages := &ProcessPages{}
	m, err := l.proc.OpenPagemap()
	if err == nil {
		pace := startPace(t.StallBudget, t.rest)
		pace.held = l.p.Hold
		err = t.readSpans(m, spans, pages, pace)
		pace.end()
		l.p.Hold = pace.held
		err = errors.Join(err, m.Close())
	}
	if err != nil {
		pages.Access, pages.Why = accessOf(err), err.Error()
	}
	return pages
}

func (t *taking) readSpans(m *procfs.Pagemap, spans []span, to *ProcessPages, pace *pace) error {
	for _, s := range spans {
		for at := s.start; at < s.end; at += scanChunk {
			if err := t.readChunk(m, at, min(s.end, at+scanChunk), s.component, to); err != nil {
				return err
			}
			if err := context.Cause(t.limited); err != nil {
				return err
			}
			if !pace.step() {
				return pace.stopped
			}
		}
	}
	return nil
}

// readChunk finds the runs of present pages, and then reads their entries.
func (t *taking) readChunk(m *procfs.Pagemap, start, end uint64, component int, to *ProcessPages) error {
	size := t.s.Machine.PageSize
	var present []span
	err := m.Runs(start, end, func(start, end uint64, state procfs.PageState) {
		if state == procfs.PagePresent {
			present = append(present, span{start: start, end: end})
		}
	})
	if err != nil {
		return err
	}
	entries := make([]procfs.PageEntry, 4096)
	for _, run := range present {
		for at := run.start; at < run.end; {
			n, err := m.Read(at, entries[:min(uint64(len(entries)), (run.end-at)/size)])
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("pagemap has no entry for %#x", at)
			}
			if err := addEntries(to, at/size, entries[:n], component); err != nil {
				return err
			}
			at += uint64(n) * size
		}
	}
	return nil
}

func addEntries(to *ProcessPages, page uint64, entries []procfs.PageEntry, component int) error {
	for i, e := range entries {
		if e&procfs.EntryPresent == 0 {
			continue // it went since
		}
		frame := e.Frame()
		if frame == 0 {
			return errNoFrames
		}
		to.Runs = mergeRun(to.Runs, PageRun{Page: page + uint64(i), Frame: frame, Count: 1, Component: uint32(component)})
	}
	if len(to.Runs) > maxRuns/4 {
		return errTooMany
	}
	return nil
}

// readFrames reads the counts and flags of all frames that were found.
func (t *taking) readFrames() {
	p := t.s.Pages
	wanted := distinctFrames(p.Processes)
	err := t.readCountsAndFlags(wanted)
	if err == nil {
		return
	}
	p.FramesAccess, p.FramesWhy = accessOf(err), err.Error()
	for _, r := range wanted {
		p.FramesLeft += r.end - r.start
	}
	for _, r := range p.Frames {
		p.FramesLeft -= uint64(r.Count)
	}
}

// distinctFrames are the frames of all processes as ascending, disjoint ranges.
func distinctFrames(list []ProcessPages) []span {
	var all []span
	for i := range list {
		for _, r := range list[i].Runs {
			all = append(all, span{start: r.Frame, end: r.Frame + uint64(r.Count)})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && r.start <= merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, r.end)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// frameChunk is how many frames are read at once, and frameGap how many that
// nobody asked for are read along rather than by another read.
const (
	frameChunk = 64 << 10
	frameGap   = 16
)

func (t *taking) readCountsAndFlags(wanted []span) (err error) {
	fs, err := procfs.New(t.Proc)
	if err != nil {
		return err
	}
	counts, err := fs.OpenFrames(procfs.FrameCounts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counts.Close()) }()
	flags, err := fs.OpenFrames(procfs.FrameFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flags.Close()) }()
	r := &frameReader{counts: counts, flags: flags, pages: t.s.Pages, count: make([]uint64, frameChunk), flag: make([]uint64, frameChunk)}
	for len(wanted) > 0 && err == nil {
		n := together(wanted)
		if err = context.Cause(t.limited); err == nil {
			err = r.read(wanted[:n])
		}
		wanted = wanted[n:]
	}
	return err
}

// together is how many ranges, at least one, lie close enough to be read at once.
func together(ranges []span) int {
	n := 1
	for n < len(ranges) && ranges[n].start-ranges[n-1].end <= frameGap && ranges[n].end-ranges[0].start <= frameChunk {
		n++
	}
	return n
}

// frameReader reads counts and flags into pages.
type frameReader struct {
	counts, flags *procfs.Frames
	pages         *Pages
	count, flag   []uint64
}

// read reads ranges that lie together, or one that may be longer than a chunk.
func (r *frameReader) read(ranges []span) error {
	first, end := ranges[0].start, ranges[len(ranges)-1].end
	for at := first; at < end; at += frameChunk {
		n := int(min(end-at, frameChunk))
		got, err := r.counts.Read(at, r.count[:n])
		if err == nil {
			n = got
			got, err = r.flags.Read(at, r.flag[:n])
		}
		if err != nil {
			return err
		}
		for _, s := range ranges {
			for frame := max(s.start, at); frame < min(s.end, at+uint64(got)); frame++ {
				i := frame - at
				r.pages.Frames = mergeFrames(r.pages.Frames, FrameRun{
					First: frame, Count: 1, Mapped: uint32(min(r.count[i], math.MaxUint32)), Flags: r.flag[i],
				})
			}
		}
		if len(r.pages.Frames) > maxRuns-frameChunk {
			return errTooMany
		}
	}
	return nil
}
