//go:build linux && !viewer

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

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
}

func readFilter(c *cli.Context) (eventFilter, error) {
	f := eventFilter{minSize: c.Uint64("min-size"), function: c.String("function")}
	for _, word := range c.StringSlice("kind") {
		kind, ok := event.ParseKind(word)
		if !ok {
			return f, noneOf("--kind", word, event.Kinds())
		}
		f.kinds = append(f.kinds, kind)
	}
	if !c.Bool("events") && (len(f.kinds) > 0 || f.minSize > 0 || f.function != "") {
		return f, usageError("--kind, --min-size and --function go with --events")
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
	wrappers *wrapper.Patterns // functions that the user calls wrappers
	names    *naming.Namer
	fs       procfs.FS
	start    uint64
	frames   map[event.StackID]siteName
	threads  map[uint32]string
	text     chan []byte
	free     chan []byte
	shown    uint64
	notShown uint64
	current  []byte
	done     sync.WaitGroup
	err      error  // of the first write that failed; this and what follows are read after done
	unsaid   uint64 // lines that were not written since
}

// siteName is the caller in a stack, named when it is first needed.
type siteName struct {
	pid    int
	frames []uint64
	name   string
	sought int // whether some function of the stack is the one asked for: 1, it is; -1, it is not; 0, that is not known
}

func newEventOutput(f eventFilter, w *wrapper.Patterns, names *naming.Namer, fs procfs.FS, start uint64) *eventOutput {
	o := &eventOutput{
		filter: f, wrappers: w, names: names, fs: fs, start: start,
		frames: make(map[event.StackID]siteName), threads: make(map[uint32]string),
		text: make(chan []byte, eventBuffers), free: make(chan []byte, eventBuffers),
	}
	for range eventBuffers {
		o.free <- make([]byte, 0, eventBufferLen)
	}
	o.done.Go(o.print)
	return o
}

func (o *eventOutput) print() {
	for b := range o.text {
		if o.err == nil {
			_, o.err = os.Stdout.Write(b)
		}
		if o.err != nil {
			o.unsaid += uint64(bytes.Count(b, []byte{'\n'}))
		}
		o.free <- b[:0]
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
	o.current = render.WriteEvent(o.current, e, o.start, render.EventNames{Thread: o.thread(e), Site: site})
	o.shown++
	if len(o.current) > eventBufferLen-4096 {
		o.flush()
	}
}

// flush hands the lines to the printer. There are no more buffers than the
// channel holds, so it never blocks.
func (o *eventOutput) flush() {
	if len(o.current) > 0 {
		o.text <- o.current
		o.current = nil
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

// thread names a thread as it was called when it was first seen.
func (o *eventOutput) thread(e *event.Event) string {
	name, ok := o.threads[e.TID]
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
	o.threads[e.TID] = name
	return name
}

// final ends the stream; the sum goes to stderr. Of lines that a write failed with,
// some may have been written.
func (o *eventOutput) final(r *report.Report) error {
	o.flush()
	close(o.text)
	o.done.Wait()
	fmt.Fprintf(os.Stderr, "memtrace: %d events shown, %d not shown because the output was too slow, %d lost\n", o.shown-o.unsaid, o.notShown, r.Events.Lost)
	if o.err != nil {
		return fmt.Errorf("write the events: %d of them are not written: %w", o.unsaid, o.err)
	}
	return nil
}
