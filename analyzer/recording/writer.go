package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// When a block is full. Each also ends with a Window that comes a second after its beginning.
const (
	blockEvents = 1 << 16
	blockBytes  = 4 << 20
	blockTime   = uint64(time.Second)
)

// Options say how to record.
type Options struct {
	Level   string // of compression: a word of Levels; "" is the first
	MaxSize int64  // bytes; 0: any. What comes later is not recorded
}

// A Writer writes a recording. Its methods return at once: they encode, and a goroutine writes.
type Writer struct {
	cols   [columns][]byte
	head   head
	began  uint64 // the time of the block's first input that has one
	events *eventEncoder
	stacks *stackEncoder
	names  *nameEncoder
	disk   *disk
	kind   kind                                      // of its blocks
	put    func(h head, payload []byte, parts []int) // what becomes of them
	state  *stateWriter                              // of a checkpoint that is being written; nil: none is
	shown  []byte                                    // the last Shown
	counts Counts
	skip   uint64 // inputs that could not be encoded
}

// Counts are what a Writer was given so far.
type Counts struct {
	Inputs, Events, Stacks uint64
}

// A File is what a Writer writes to.
type File interface {
	Write([]byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// NewWriter begins a recording in an empty file, which it closes in the end.
func NewWriter(f File, h Header, o Options) (*Writer, error) {
	c, err := newCompressor(o.Level)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("write the recording's header: %w", err)
	}
	stacks := newStackEncoder()
	w := &Writer{events: newEventEncoder(stacks), stacks: stacks, names: newNameEncoder(stacks), disk: newDisk(f, c, o.MaxSize), kind: kindInputs}
	w.put = w.disk.putParts
	if err := w.disk.begin(text); err != nil {
		return nil, err
	}
	w.reset()
	return w, nil
}

// Take records an input.
func (w *Writer) Take(in input.Input) {
	switch v := in.(type) {
	case *input.Events:
		w.takeEvents(tagEvents, v.Events)
	case *input.Held:
		w.takeEvents(tagHeld, v.Events)
	case input.Stack:
		w.script(tagStack)
		w.stacks.add(&w.cols, &v.Stack)
		w.head.stacks++
		w.counts.Stacks++
	case input.Names:
		w.takeNames(&v)
	default:
		tag, b, err := encodeOther(in)
		if err != nil {
			w.skip++
			return
		}
		w.script(tag)
		w.cols[colOther] = append(appendUvarint(w.cols[colOther], uint64(len(b))), b...)
	}
	w.noteTime(timeOf(in))
	if _, window := in.(input.Window); window && w.head.last-min(w.head.last, w.began) >= blockTime || w.isFull() {
		w.flush()
	}
}

func (w *Writer) takeEvents(tag byte, events []event.Event) {
	for len(events) > 0 {
		n := min(len(events), blockEvents-int(w.head.events))
		w.script(tag)
		w.cols[colScript] = appendUvarint(w.cols[colScript], uint64(n))
		for i := range events[:n] {
			w.events.add(&w.cols, &events[i])
		}
		w.noteTime(events[0].Time)
		w.noteTime(events[n-1].Time)
		w.head.events += uint32(n)
		w.counts.Events += uint64(n)
		if events = events[n:]; len(events) > 0 {
			w.flush()
		}
	}
}

func (w *Writer) takeNames(v *input.Names) {
	if err := w.names.add(&w.cols, v); err != nil {
		w.skip++
		return
	}
	w.script(tagNames)
	w.head.flags |= flagNames
}

func (w *Writer) script(tag byte) {
	w.cols[colScript] = append(w.cols[colScript], tag)
	w.head.inputs++
	w.counts.Inputs++
}

func (w *Writer) noteTime(t uint64) {
	if t == 0 {
		return
	}
	if w.began == 0 {
		w.began = t
	}
	if w.head.first == 0 || t < w.head.first {
		w.head.first = t
	}
	w.head.last = max(w.head.last, t)
}

func (w *Writer) isFull() bool {
	bytes := 0
	for _, i := range []int{colOther, colFrames, colRare, colStacks, colStackTree, colNames, colNameTree, colNameFrames, colFrameNames} {
		bytes += len(w.cols[i])
	}
	return w.head.events >= blockEvents || w.stacks.frames >= maxFrames-maxDepth || w.names.refs >= maxNameRefs-maxNamed || bytes >= blockBytes
}

// Shown notes what a Report has beside the analyzer's, whose warnings are its first ones.
func (w *Writer) Shown(at uint64, r *report.Report, analyzers int) {
	s := shownOf(0, r, analyzers)
	b, err := encoding.Marshal(s)
	if err != nil || bytes.Equal(b, w.shown) {
		return
	}
	w.shown = b
	s.At = at
	if b, err = encoding.Marshal(s); err == nil && len(b) <= maxOther {
		w.flush() // it stands after what it was made of
		w.disk.put(head{kind: kindShown, first: at, last: at}, b)
	}
}

// Report records the last Report as JSON: what is asked for most needs no replay then. One that is too large to be
// read back is left out.
func (w *Writer) Report(at uint64, r *report.Report) error {
	w.flush()
	if aboutJSON(r) > maxRaw {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record the Report: %w", err)
	}
	if len(text) <= maxRaw {
		w.disk.put(head{kind: kindReport, first: at, last: at}, text)
	}
	return nil
}

// aboutJSON is what a Report takes as JSON at least, in bytes, without making it.
func aboutJSON(r *report.Report) (n int) {
	const site, frame = 400, 100
	for i := range r.Sites {
		n += site + frame*len(r.Sites[i].Stack)
	}
	return n
}

// flush hands over the block.
func (w *Writer) flush() {
	if w.head.inputs == 0 {
		return
	}
	w.head.kind = w.kind
	payload, parts := layOut(w.disk.buffer(), &w.cols)
	w.put(w.head, payload, parts)
	w.reset()
}

func (w *Writer) reset() {
	for i := range w.cols {
		w.cols[i] = w.cols[i][:0]
	}
	last := w.head.last
	w.head, w.began = head{first: last, last: last}, last
	w.events.reset()
	w.stacks.reset()
	w.names.reset()
}

// Counts are what was given so far.
func (w *Writer) Counts() Counts { return w.counts }

// Status is how the writing goes. It may be called by any goroutine.
func (w *Writer) Status() Status { return w.disk.status() }

// Close writes what is left and closes the file. Its error is the first one there was.
func (w *Writer) Close() error {
	w.state.stop()
	w.flush()
	return w.disk.close(w.skip)
}
