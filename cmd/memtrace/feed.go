//go:build linux && !viewer

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs"
)

// feedOutput tells an agent what changed from Report to Report. The agent may be slow or gone: the trace goes on, and
// what a Report that was not written had is in the next.
type feedOutput struct {
	noOutput
	mail    chan feedNews // at most one waits
	done    chan struct{}
	session *session
	told    atomic.Uint64 // the instant of the last Report that the agent was told of
}

// feedNews are a Report, and how the recording goes.
type feedNews struct {
	report   *report.Report
	recorded int64
	wrong    error
}

func startFeed(s *session, f *feed) *feedOutput {
	o := &feedOutput{mail: make(chan feedNews, 1), done: make(chan struct{}), session: s}
	go func() {
		defer close(o.done)
		for n := range o.mail {
			if f.write(n); !f.failed {
				o.told.Store(n.report.WindowNS)
			}
		}
	}()
	return o
}

func (o *feedOutput) wantsIntervals() bool { return true }

// endedAt spares Reports what the agent knows for good.
func (o *feedOutput) endedAt() uint64 { return o.told.Load() }

func (o *feedOutput) interval(r *report.Report) {
	select {
	case o.mail <- o.news(r):
	default:
	}
}

func (o *feedOutput) news(r *report.Report) feedNews {
	n := feedNews{report: r}
	if rec := o.session.recorder; rec != nil {
		n.recorded, n.wrong = rec.size(), rec.status().Err
	}
	return n
}

// finalPatience is how long the agent has to take the last Feed.
const finalPatience = 2 * time.Second

func (o *feedOutput) final(r *report.Report) error {
	late := time.NewTimer(finalPatience)
	defer late.Stop()
	select {
	case o.mail <- o.news(r):
	case <-late.C:
		return nil
	}
	close(o.mail)
	select {
	case <-o.done:
	case <-late.C:
	}
	return nil
}

// A feed makes Feeds of Reports. The same stack in several processes is one.
type feed struct {
	to      *json.Encoder
	failed  bool
	own     *procfs.Process // this one; nil: it can't be read
	frames  map[report.Frame]int
	stacks  map[string]*fedStack
	all     []*fedStack // by number
	other   fedStack
	touched touchedSites

	mu      sync.Mutex
	refused []int
}

// fedStack is a stack's figures: those of this Report, and those that the agent was told last.
type fedStack struct {
	now, told agent.StackFigures
}

func newFeed(to io.Writer, own *procfs.Process) *feed {
	f := &feed{
		to: json.NewEncoder(to), own: own, frames: make(map[report.Frame]int), stacks: make(map[string]*fedStack),
	}
	f.other.now.Stack, f.other.told.Stack = agent.OtherStacks, agent.OtherStacks
	return f
}

// greet tells the agent that this tracer can trace: orders may come.
func (f *feed) greet() {
	out := &agent.Feed{}
	f.addOwn(out)
	f.failed = f.to.Encode(out) != nil
}

// refuse notes a process that could not be traced. Any goroutine may call it.
func (f *feed) refuse(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, pid)
}

func (f *feed) write(n feedNews) {
	if f.failed {
		return
	}
	out := f.of(n.report)
	out.Recorded = n.recorded
	if n.wrong != nil {
		out.RecordError = n.wrong.Error()
	}
	if err := f.to.Encode(out); err != nil {
		f.failed = true // the agent is gone, which the end of stdin says, too
	}
}

func (f *feed) of(r *report.Report) *agent.Feed {
	out := &agent.Feed{
		WindowNS: r.WindowNS, Faults: r.Events.FaultMinor + r.Events.FaultMajor, Lost: r.Events.Lost,
		Listed: len(r.Processes),
	}
	for i := range r.Processes {
		p := &r.Processes[i]
		out.Missed += uint64(p.Children)
		if p.Exited || p.FirstTouch == nil || p.Children > 0 {
			continue
		}
		if len(out.Watched) == 0 {
			out.Exe = p.Exe
		}
		out.Watched = append(out.Watched, p.PID)
		out.Grown += p.FirstTouch.ExplainedBytes
		out.Before += p.FirstTouch.BeforeBytes
		out.Unexplained += p.FirstTouch.UnexplainedBytes
	}
	f.addOwn(out)
	f.addSites(out, r)
	return out
}

// addOwn adds what the tracer costs, and what it refused.
func (f *feed) addOwn(out *agent.Feed) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err == nil {
		out.CPUNS = uint64(usage.Utime.Nano() + usage.Stime.Nano())
	}
	if f.own != nil {
		if sizes, err := f.own.Statm(); err == nil {
			out.Resident = sizes.Resident
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Refused, f.refused = f.refused, nil
}

// addSites sums the sites up by stack, and adds those whose figures changed.
func (f *feed) addSites(out *agent.Feed, r *report.Report) {
	ended := make(map[int]bool)
	for i := range r.Processes {
		ended[r.Processes[i].ID] = r.Processes[i].Exited
	}
	f.each((*fedStack).begin)
	for i, news := range f.touched.since(r.Sites) {
		site := &r.Sites[i]
		f.stackOf(out, site).add(site, news, ended[site.Process])
	}
	f.each(func(s *fedStack) {
		if s.now != s.told {
			s.told = s.now
			out.Sites = append(out.Sites, s.now)
		}
	})
}

func (f *feed) each(do func(*fedStack)) {
	for _, s := range f.all {
		do(s)
	}
	do(&f.other)
}

// stackOf is the stack of a site, one without a number where there are too many.
func (f *feed) stackOf(out *agent.Feed, s *report.Site) *fedStack {
	key := make([]byte, 0, 8*len(s.Stack))
	numbers := make([]int, 0, len(s.Stack))
	var news []report.Frame
	for _, frame := range s.Stack {
		n, known := f.frames[*frame]
		if !known {
			if n = slices.Index(news, *frame); n < 0 {
				n, news = len(news), append(news, *frame)
			}
			n += len(f.frames)
		}
		numbers = append(numbers, n)
		key = fmt.Appendf(key, "%d,", n)
	}
	if known := f.stacks[string(key)]; known != nil && len(news) == 0 {
		return known
	}
	if len(f.all) >= agent.MaxStacks || len(s.Stack) == 0 {
		return &f.other
	}
	for i := range news {
		f.frames[news[i]] = len(f.frames)
	}
	stack := &fedStack{}
	stack.now.Stack, stack.told.Stack = len(f.all), len(f.all)
	f.stacks[string(key)], f.all = stack, append(f.all, stack)
	out.Frames = append(out.Frames, news...)
	out.Stacks = append(out.Stacks, agent.FeedStack{Frames: numbers, Function: s.FunctionFrame, Truncated: s.Truncated})
	return stack
}

func (s *fedStack) begin() { s.now.LiveBytes, s.now.LiveCount = 0, 0 }

// add adds a site. What a process held that has ended is nobody's any more.
func (s *fedStack) add(site *report.Site, news touchedPages, ended bool) {
	s.now.TouchedBytes += news.bytes
	s.now.TouchedCount += news.count
	if !ended {
		s.now.LiveBytes += site.LiveBytes
		s.now.LiveCount += site.LiveCount
	}
}
