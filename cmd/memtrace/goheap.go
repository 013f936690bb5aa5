//go:build linux && !viewer

package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/goheap"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A goProfile is the reading of one Go program's own memory profile.
type goProfile struct {
	reader *goheap.Reader // nil: there is none to be read
	module string
	told   map[int]bool // stacks, by Site.Stack
	frames map[goheap.Frame]*input.Frame
	last   input.GoHeap
}

// readGoHeap reads the memory profile of a process that may be a Go program, and tells the analyzer where it has changed.
func (s *session) readGoHeap(t *target) {
	if t.exited || t.shared || !t.noAllocator && !t.goHeap || s.tracer.Config().Touch { // its pages have their stacks already
		return
	}
	if t.profile == nil || t.profiledExec != t.execed {
		t.profile.close()
		t.profile, t.profiledExec = s.openGoHeap(t), t.execed
	}
	g := t.profile
	if g.reader == nil {
		return
	}
	p, err := g.reader.Read()
	if !t.held.Alive() {
		return // what was read may be another's
	}
	now := now()
	if err != nil {
		s.takeGoHeap(g, input.GoHeap{PID: uint32(t.pid), Now: now, Version: g.reader.Version(), Problem: err.Error()})
		return
	}
	s.say("read %d buckets of process %d's Go heap profile in %v: %d reads of %d KiB in all", p.Buckets, t.pid, p.Took, p.Calls, p.Bytes>>10)
	s.takeGoStacks(t.pid, g, p)
	s.takeGoHeap(g, goHeapInput(t.pid, now, p))
}

// openGoHeap looks for the memory profile of a process. One that is no Go program has none, and nothing is said of that.
func (s *session) openGoHeap(t *target) *goProfile {
	g := &goProfile{told: make(map[int]bool), frames: make(map[goheap.Frame]*input.Frame)}
	reader, err := goheap.Open(t.pid)
	switch {
	case !t.held.Alive():
		if err == nil {
			reader.Close()
		}
	case err == nil:
		g.reader = reader
		g.module, _ = t.held.Exe()
	case !errors.Is(err, goheap.ErrNotGo):
		s.takeGoHeap(g, input.GoHeap{PID: uint32(t.pid), Now: now(), Problem: err.Error()})
	}
	return g
}

func (g *goProfile) close() {
	if g != nil && g.reader != nil {
		g.reader.Close()
		g.reader = nil
	}
}

// takeGoHeap gives the analyzer a reading that says something else than the last one.
func (s *session) takeGoHeap(g *goProfile, v input.GoHeap) {
	sites := v.Sites
	v.Sites = nil
	same := g.last
	same.Now, same.Sites = v.Now, nil
	if reflect.DeepEqual(same, v) && slices.Equal(g.last.Sites, sites) {
		return
	}
	v.Sites = sites
	g.last = v
	s.take(v)
}

func goHeapInput(pid int, now uint64, p *goheap.Profile) input.GoHeap {
	out := input.GoHeap{
		PID: uint32(pid), Now: now, Version: p.Version, FoundBy: p.By, Rate: uint64(p.Rate), Cycles: p.Cycle,
		BeforeGC: p.BeforeGC, Unsettled: p.Unsettled, Cut: p.Cut, Sites: make([]input.GoSite, 0, len(p.Sites)),
	}
	for _, s := range p.Sites {
		out.Sites = append(out.Sites, input.GoSite{Stack: uint32(s.Stack), Live: goFigure(s.InUse), Alloc: goFigure(s.Alloc)})
	}
	return out
}

func goFigure(e goheap.Estimate) input.GoFigure {
	return input.GoFigure{Samples: e.Samples, Count: e.Count, Bytes: e.Bytes, CountSE: e.CountSE(), BytesSE: e.BytesSE()}
}

// maxStacksText bounds the text of one GoStacks, in bytes, by much less than a recording takes of one input.
const maxStacksText = 1 << 20

// takeGoStacks names the stacks that are new in a reading.
func (s *session) takeGoStacks(pid int, g *goProfile, p *goheap.Profile) {
	var out []input.GoStack
	text := 0
	give := func() {
		if len(out) > 0 {
			s.take(input.GoStacks{PID: uint32(pid), Stacks: out})
		}
		out, text = nil, 0
	}
	for _, site := range p.Sites {
		if site.Stack == 0 || g.told[site.Stack] {
			continue
		}
		g.told[site.Stack] = true
		stack := input.GoStack{Number: uint32(site.Stack)}
		for _, f := range g.reader.Frames(site.Addrs) {
			frame := g.frame(f)
			stack.Frames = append(stack.Frames, frame)
			text += len(frame.Function) + len(frame.File) + len(frame.Module)
		}
		if out = append(out, stack); text >= maxStacksText {
			give()
		}
	}
	give()
}

// maxGoFrames bounds the frames that stacks share.
const maxGoFrames = 1 << 16

func (g *goProfile) frame(f goheap.Frame) *input.Frame {
	if known := g.frames[f]; known != nil {
		return known
	}
	valid := func(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
	out := &input.Frame{Function: valid(f.Function), File: valid(f.File), Line: f.Line, Module: valid(g.module), Offset: f.Addr, Inlined: f.Inlined}
	if len(g.frames) < maxGoFrames {
		g.frames[f] = out
	}
	return out
}

// namedGoSites is how many sites goHoldsInstead names.
const namedGoSites = 3

// goHoldsInstead says why a Go program is not checked for leaks, and what holds most of its heap.
func goHoldsInstead(pid int) error {
	const why = "check process %d for leaks: Go's garbage collector frees what nothing points to, so no block of a Go program is lost: what leaks is still reachable, and grows. "
	reader, err := goheap.Open(pid)
	if err != nil {
		return fmt.Errorf(why+"What it holds could not be read: %w", pid, err)
	}
	defer reader.Close()
	p, err := reader.Read()
	if err != nil {
		return fmt.Errorf(why+"What it holds could not be read: %w", pid, err)
	}
	return fmt.Errorf(why+"By its own samples it holds %s. memtrace -p %d shows all sites and which grow", pid, largestGoSites(reader, p), pid)
}

// largestGoSites is like "424 MiB: 416 MiB allocated by main.grow, 5.01 MiB by main.deep".
func largestGoSites(reader *goheap.Reader, p *goheap.Profile) string {
	sum := uint64(0)
	for i := range p.Sites {
		sum += p.Sites[i].InUse.Bytes
	}
	slices.SortStableFunc(p.Sites, func(x, y goheap.Site) int { return cmp.Compare(y.InUse.Bytes, x.InUse.Bytes) })
	var parts []string
	for _, s := range p.Sites[:min(namedGoSites, len(p.Sites))] {
		if frames := reader.Frames(s.Addrs); len(frames) > 0 && s.InUse.Bytes > 0 {
			parts = append(parts, report.HumanBytes(float64(s.InUse.Bytes))+" allocated by "+frames[0].Function)
		}
	}
	text := report.HumanBytes(float64(sum))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}
