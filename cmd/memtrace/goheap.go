//go:build linux && !viewer

package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/goheap"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs/turns"
)

// A goProfile is the reading of one Go program's own memory profile.
type goProfile struct {
	reader goReader      // nil: it has not been opened, or there is none to be read
	none   bool          // there is none to be read
	answer chan goAnswer // of the goroutine at work, which has the reader; nil: there is none
	readAt uint64        // when last was read, ns of CLOCK_MONOTONIC; 0: last has no figures
	module string
	told   map[int]bool // stacks, by Site.Stack
	frames map[goheap.Frame]*input.Frame
	last   input.GoHeap
}

// A goReader is a *goheap.Reader.
type goReader interface {
	Read() (*goheap.Profile, error)
	Frames(addrs []uint64) []goheap.Frame
	Version() string
	Close()
}

// A goAnswer is what was read of a process.
type goAnswer struct {
	reader  goReader // nil: it could not be opened, as err says
	profile *goheap.Profile
	err     error
	at      uint64 // when that was, ns of CLOCK_MONOTONIC
	took    time.Duration
}

const (
	// goPatience is how long a profile is waited for: some have tens of thousands of stacks.
	goPatience = 2 * time.Second
	// Profiles are waited for in vain for maxGoWait and an nth of the trace's time, of all processes together.
	maxGoWait, goWaitShare = 5 * goPatience, 10
	// goKeep is how long figures are good for while the next reading is late.
	goKeep = 10 * time.Second
	// maxGoReads bounds how many are read at a time: each that does not answer keeps a thread.
	maxGoReads = 64
)

// goReads has a turn for each goroutine at work, of all processes.
var goReads = turns.New(maxGoReads)

var errTooManyReads = errors.New("too many other processes of its user, or of all, have not been read in time")

var errNotDelivered = errors.New("its memory could not be read in time: another program may have to deliver it (userfaultfd, FUSE)")

func newGoProfile() *goProfile {
	return &goProfile{told: make(map[int]bool), frames: make(map[goheap.Frame]*input.Frame)}
}

func openGoHeap(pid int) (goReader, error) {
	reader, err := goheap.Open(pid)
	if err != nil {
		return nil, err // not a reader that is nil
	}
	return reader, nil
}

// begin has a goroutine read the profile, opened by open before that: a process may have memory that comes when another
// program likes. It is false where too many others are read.
func (g *goProfile) begin(user uint32, open func() (goReader, error)) bool {
	if !goReads.Take(user) {
		return false
	}
	g.answer = make(chan goAnswer, 1)
	go func(answer chan<- goAnswer, a goAnswer) {
		defer goReads.Give(user)
		began := time.Now()
		if a.reader == nil {
			a.reader, a.err = open()
		}
		if a.reader != nil {
			a.profile, a.err = a.reader.Read()
		}
		a.at, a.took = now(), time.Since(began)
		answer <- a
	}(g.answer, goAnswer{reader: g.reader})
	return true
}

// wait returns the answer of the goroutine at work, if it comes in time.
func (g *goProfile) wait(patience time.Duration) (a goAnswer, ok bool) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a = <-g.answer:
	default:
		select {
		case a = <-g.answer:
		case <-late.C:
			return a, false
		}
	}
	g.answer, g.reader = nil, a.reader
	return a, true
}

// read reads the profile, and takes what was read. Where the reading before came late, that is taken first; if it took
// longer than is waited for, the next one is begun and not waited for: memory that never comes is waited for once, and
// slow memory has figures each time, with the time that they are of. read returns how long was waited in vain.
func (g *goProfile) read(
	user uint32, patience time.Duration, open func() (goReader, error), take func(goAnswer),
) time.Duration {
	slow := false
	if g.answer != nil {
		a, ok := g.wait(0)
		if !ok {
			g.beLate(errNotDelivered, take)
			return 0
		}
		take(a)
		if slow = a.took > goPatience; g.none {
			return 0
		}
	}
	if !g.begin(user, open) {
		g.beLate(errTooManyReads, take)
		return 0
	}
	if slow {
		return 0
	}
	if !goReads.Waits(user) {
		patience = 0
	}
	a, ok := g.wait(patience)
	if !ok {
		goReads.Late(user)
		g.beLate(errNotDelivered, take)
		return patience
	}
	take(a)
	return 0
}

// beLate says why nothing was read, unless there are figures that are new enough: their time is told with them.
func (g *goProfile) beLate(err error, take func(goAnswer)) {
	if at := now(); g.readAt == 0 || at-min(at, g.readAt) > uint64(goKeep) {
		take(goAnswer{err: err, at: at})
	}
}

// readGoHeap reads the memory profile of a process that may be a Go program, and tells the analyzer where it has changed.
func (s *session) readGoHeap(t *target) {
	if t.exited || t.shared || !t.noAllocator && !t.goHeap || s.tracer.Config().Touch { // its pages have their stacks already
		return
	}
	if t.profile == nil || t.profiledExec != t.execed {
		t.profile.close()
		t.profile, t.profiledExec = newGoProfile(), t.execed
	}
	g := t.profile
	if g.none {
		return
	}
	left := maxGoWait + time.Duration(now()-s.started)/goWaitShare - s.goWaited
	patience := min(goPatience, max(left, 0))
	open := func() (goReader, error) { return openGoHeap(t.pid) }
	s.goWaited += g.read(userOf(t), patience, open, func(a goAnswer) { s.noteGoHeap(t, g, a) })
}

// noteGoHeap tells the analyzer what was read, or why nothing was.
func (s *session) noteGoHeap(t *target, g *goProfile, a goAnswer) {
	if !t.held.Alive() {
		return // what was read may be another's
	}
	if a.reader == nil && a.err != errNotDelivered && a.err != errTooManyReads {
		g.none = true
		if errors.Is(a.err, goheap.ErrNotGo) {
			return // nothing is said of that
		}
	}
	if a.err != nil {
		v := input.GoHeap{PID: uint32(t.pid), Now: a.at, Problem: a.err.Error()}
		if a.reader != nil {
			v.Version = a.reader.Version()
		}
		g.readAt = 0
		s.takeGoHeap(g, v)
		return
	}
	if g.module == "" {
		g.module, _ = t.held.Exe()
	}
	p := a.profile
	s.say("read %d buckets of process %d's Go heap profile in %v: %d reads of %d KiB in all", p.Buckets, t.pid, p.Took, p.Calls, p.Bytes>>10)
	s.takeGoStacks(t.pid, g, p)
	s.takeGoHeap(g, goHeapInput(t.pid, a.at, p))
	g.readAt = a.at
}

// userOf is whose process a target is; one that is gone is nobody's, that is, root's.
func userOf(t *target) uint32 {
	status, err := t.held.Status()
	if err != nil {
		return 0
	}
	return status.Uid[0]
}

// close closes the reader; one at work, once it has answered.
func (g *goProfile) close() {
	switch {
	case g == nil:
	case g.answer != nil:
		go func() {
			if a := <-g.answer; a.reader != nil {
				a.reader.Close()
			}
		}()
	case g.reader != nil:
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
	g := newGoProfile()
	defer g.close()
	var a goAnswer
	g.read(0, goPatience, func() (goReader, error) { return openGoHeap(pid) }, func(read goAnswer) { a = read })
	if a.err != nil {
		return fmt.Errorf(why+"What it holds could not be read: %w", pid, a.err)
	}
	return fmt.Errorf(why+"By its own samples it holds %s. memtrace -p %d shows all sites and which grow", pid, largestGoSites(a.reader, a.profile), pid)
}

// largestGoSites is like "424 MiB: 416 MiB allocated by main.grow, 5.01 MiB by main.deep".
func largestGoSites(reader goReader, p *goheap.Profile) string {
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
