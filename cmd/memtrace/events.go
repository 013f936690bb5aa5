//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/wrapper"
	"github.com/memtrace/memtrace/cmd/memtrace/naming"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
)

// eventFilter says which events --events prints.
type eventFilter struct {
	kinds    []event.Kind
	minSize  uint64
	function string
	stacks   bool // call stacks are printed, too
}

func readFilter(c *cli.Context) (eventFilter, error) {
	f := eventFilter{minSize: c.Uint64("min-size"), function: c.String("function"), stacks: c.Bool("stacks")}
	for _, word := range unlessNone(c.StringSlice("kind")) {
		kind, ok := event.ParseKind(word)
		if !ok {
			return f, noneOf("--kind", word, event.Kinds())
		}
		f.kinds = append(f.kinds, kind)
	}
	if c.Bool("events") {
		return f, nil
	}
	for _, name := range []string{"kind", "min-size", "function", "stacks"} {
		if asksFor(c, name) {
			return f, usageError("--%s goes with --events", name)
		}
	}
	return f, nil
}

// passes looks at all but the function, which takes longer to find.
func (f *eventFilter) passes(e *event.Event) bool {
	return (len(f.kinds) == 0 || slices.Contains(f.kinds, e.Kind)) && e.Size >= f.minSize
}

const (
	eventBuffers   = 64       // of text that wait for the terminal
	eventBufferLen = 64 << 10 // bytes
	maxEventNames  = 1 << 16  // sites and threads whose names are remembered
)

// eventOutput prints events as lines. It never waits for the terminal: lines
// that it can't take are counted.
type eventOutput struct {
	noOutput
	filter   eventFilter
	json     bool
	wrappers *wrapper.Patterns // functions that the user calls wrappers
	names    *naming.Namer
	fs       procfs.FS
	start    uint64
	frames   map[event.StackID]siteName
	threads  map[threadID]string
	begun    map[threadID]string // names of the threads that there were as the trace began
	text     chan eventText
	free     chan []byte
	shown    uint64
	notShown uint64
	current  []byte
	waiting  uint64 // events in current
	done     sync.WaitGroup
	err      error  // of the first write that failed; this and what follows are read after done
	unsaid   uint64 // lines that were not written since
}

// eventText is text for the terminal, and of how many events it is.
type eventText struct {
	text   []byte
	events uint64
}

// siteName is the caller in a stack, named when it is first needed.
type siteName struct {
	pid    int
	frames []uint64
	name   string
	stack  []string // all of them, once they are asked for and can be named
	sought int      // whether some function of the stack is the one asked for: 1, it is; -1, it is not; 0, that is not known
}

func newEventOutput(set *settings, names *naming.Namer, fs procfs.FS, start uint64) *eventOutput {
	o := &eventOutput{
		filter: set.filter, json: set.format == render.JSON, wrappers: set.wrappers, names: names, fs: fs, start: start,
		frames: make(map[event.StackID]siteName), threads: make(map[threadID]string), begun: make(map[threadID]string),
		text: make(chan eventText, eventBuffers), free: make(chan []byte, eventBuffers),
	}
	for range eventBuffers {
		o.free <- make([]byte, 0, eventBufferLen)
	}
	o.done.Go(o.print)
	if !o.json && term.IsTerminal(int(os.Stdout.Fd())) {
		o.current = append(<-o.free, render.EventTitles...)
		o.flush()
	}
	return o
}

func (o *eventOutput) print() {
	for t := range o.text {
		if o.err == nil {
			_, o.err = os.Stdout.Write(t.text)
		}
		if o.err != nil {
			o.unsaid += t.events
		}
		o.free <- t.text[:0]
	}
}

func (o *eventOutput) stack(s event.Stack) {
	if len(o.frames) >= maxEventNames {
		clear(o.frames)
	}
	o.frames[s.ID] = siteName{pid: int(s.PID), frames: s.Frames}
}

func (o *eventOutput) events(events []event.Event) {
	for i := range events {
		e := &events[i]
		if !o.filter.passes(e) {
			continue
		}
		if o.filter.function == "" || o.sought(e) {
			o.line(e, o.site(e))
		}
	}
	o.flush()
}

func (o *eventOutput) line(e *event.Event, site string) {
	if o.current == nil {
		select {
		case o.current = <-o.free:
		default:
			o.notShown++
			return
		}
	}
	names := render.EventNames{Thread: o.thread(e), Site: site}
	if o.filter.stacks {
		names.Stack = o.stackOf(e)
	}
	if o.json {
		o.current = render.WriteEventJSON(o.current, e, o.start, names)
	} else {
		o.current = render.WriteEventStack(render.WriteEvent(o.current, e, o.start, names), names.Stack)
	}
	o.shown, o.waiting = o.shown+1, o.waiting+1
	if len(o.current) > eventBufferLen-4096 {
		o.flush()
	}
}

// flush hands the lines to the printer. There are no more buffers than the
// channel holds, so it never blocks.
func (o *eventOutput) flush() {
	if len(o.current) > 0 {
		o.text <- eventText{o.current, o.waiting}
		o.current, o.waiting = nil, 0
	}
}

// site names the function that allocated: the innermost that is no wrapper of
// the allocator.
func (o *eventOutput) site(e *event.Event) string {
	s, ok := o.frames[e.Stack]
	if !ok || e.Stack == 0 {
		return ""
	}
	if i := slices.IndexFunc(s.frames, event.IsPython); s.name == "" && i >= 0 {
		s.name = o.names.Function(s.pid, s.frames[i])
		o.frames[e.Stack] = s
	}
	if s.name == "" {
		for _, ret := range s.frames {
			s.name = o.names.Function(s.pid, ret)
			if !report.IsAllocator(s.name) && !wrapper.Known(s.name) && !o.wrappers.Match(s.name) {
				break
			}
		}
		o.frames[e.Stack] = s
	}
	return s.name
}

// stackOf names the functions of an event's call stack, innermost first; nil where there is none.
func (o *eventOutput) stackOf(e *event.Event) []string {
	s, ok := o.frames[e.Stack]
	if !ok || e.Stack == 0 {
		return nil
	}
	if s.stack != nil {
		return s.stack
	}
	stack := make([]string, 0, len(s.frames))
	for _, ret := range s.frames {
		stack = append(stack, o.names.Function(s.pid, ret))
	}
	if o.names.Knows(s.pid) { // else there may be names later
		s.stack = stack
		o.frames[e.Stack] = s
	}
	return stack
}

// sought reports whether the function asked for is anywhere in an event's stack: what
// it calls allocates on its behalf, by whatever wrapper.
func (o *eventOutput) sought(e *event.Event) bool {
	s, ok := o.frames[e.Stack]
	if !ok || e.Stack == 0 {
		return false
	}
	if s.sought == 0 && o.names.Knows(s.pid) { // else there may be names later
		s.sought = -1
		if slices.ContainsFunc(s.frames, func(ret uint64) bool { return strings.Contains(o.names.Function(s.pid, ret), o.filter.function) }) {
			s.sought = 1
		}
		o.frames[e.Stack] = s
	}
	return s.sought > 0
}

// began notes how the threads of a process are called before its events are read: it may have ended by then.
func (o *eventOutput) began(p *procfs.Process) {
	tids, _ := p.Tasks() // none of one that has ended
	for _, tid := range tids[:min(len(tids), maxEventNames-len(o.begun))] {
		if name, err := p.TaskComm(tid); err == nil {
			o.begun[threadID{uint32(p.PID()), uint32(tid)}] = name
		}
	}
}

// thread names a thread as it was called when it was first seen, or when the trace began if it has ended since.
func (o *eventOutput) thread(e *event.Event) string {
	id := threadID{e.PID, e.TID}
	name, ok := o.threads[id]
	if ok {
		return name
	}
	if len(o.threads) >= maxEventNames {
		clear(o.threads)
	}
	if p, err := o.fs.Process(int(e.PID)); err == nil {
		name, _ = p.TaskComm(int(e.TID)) // a thread that has ended has no name
		_ = p.Close()
	}
	if name == "" {
		name = o.begun[id]
	}
	o.threads[id] = name
	return name
}

// final ends the stream; the sum goes to stderr. Of lines that a write failed with,
// some may have been written.
func (o *eventOutput) final(r *report.Report) error {
	o.flush()
	if o.json {
		b := append(<-o.free, fmt.Sprintf(`{"final":true,"shown":%d,"not_shown":%d,"lost":%d}`+"\n", o.shown, o.notShown, r.Events.Lost)...)
		o.text <- eventText{b, 0}
	}
	close(o.text)
	o.done.Wait()
	fmt.Fprintf(os.Stderr, "memtrace: %d events shown, %d not shown because the output was too slow, %d lost\n", o.shown-o.unsaid, o.notShown, r.Events.Lost)
	if o.err != nil {
		return fmt.Errorf("write the events: %d of them are not written: %w", o.unsaid, o.err)
	}
	return nil
}
