package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// What a file can make a reader keep.
const (
	maxBlocks = 1 << 20
	maxGaps   = 1 << 12
	maxHeader = 1 << 20
	batch     = 1 << 12 // events that are given at once
)

// A Reader reads a recording. What is missing or damaged is no error: Gaps says so.
type Reader struct {
	// Watch, if not nil, is called before each block that is played, with the part of the recording that is done,
	// and with 1 at the end. An error of it ends the playing, as the error of that.
	Watch func(done float64) error

	// Savepoints, if not nil, are used and made as the recording is played, and are to be of this file.
	Savepoints *Savepoints

	file   io.ReaderAt
	size   int64
	header Header
	blocks []place // all that can be read, in their order
	gaps   []Gap   // as the heads tell
	more   int     // gaps beyond those that are kept
	total  uint64  // events that the blocks have
	end    *ending // nil: the recording was not closed

	zip     decompressor
	stored  []byte
	raw     []byte
	cols    [columns]column
	events  eventDecoder
	stacks  stackDecoder
	names   nameDecoder
	batch   []event.Event
	lend    input.Events
	held    input.Held
	states  []state // its checkpoints, in the order in which they are complete
	parts   []place // of one that is not
	unknown int     // inputs of kinds that this memtrace doesn't know
}

// A place is where a block is in the file.
type place struct {
	offset int64
	head   head
	gap    int32 // 1 + the index of the gap before it; 0: none
}

// A Gap is what a recording lacks.
type Gap struct {
	First, Last uint64 // ns, CLOCK_MONOTONIC; Last is 0 where nothing comes after
	Blocks      uint64 // 0: not known
	Events      uint64 // 0: not known
	Why         string
}

// Open reads what a recording of size bytes has, but not its inputs. Where it is being written, what comes later
// is not seen.
func Open(f io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{file: f, size: size, batch: make([]event.Event, batch)}
	prefix := make([]byte, min(size, prefixSize))
	if _, err := f.ReadAt(prefix, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	r.zip = newDecompressor()
	if err := r.walk(); err != nil {
		return nil, err
	}
	if r.header.Version == "" {
		return nil, ErrNoHeader
	}
	return r, nil
}

// Header says what the recording is of.
func (r *Reader) Header() *Header { return &r.header }

// Closed reports whether the recording was ended, rather than cut or still being written.
func (r *Reader) Closed() bool { return r.end != nil }

// Span is the time of the first input and of the last one that can be read, ns of CLOCK_MONOTONIC.
func (r *Reader) Span() (first, last uint64) {
	first = r.header.Config.Start
	last = first
	for i := range r.blocks {
		last = max(last, r.blocks[i].head.last)
	}
	return first, last
}

// walk goes from head to head.
func (r *Reader) walk() error {
	w := walker{r: r, at: prefixSize}
	buffer := make([]byte, headSize)
	for w.at < r.size {
		n, err := r.file.ReadAt(buffer, w.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the recording: %w", err)
		}
		h, ok := parseHead(buffer[:n])
		switch {
		case !ok && !w.resync():
			return nil
		case !ok:
			continue
		case w.at+headSize+int64(h.stored) > r.size:
			return nil // cut
		case len(r.blocks) == maxBlocks:
			return fmt.Errorf("read the recording: it has more than %d blocks", maxBlocks)
		}
		if err := w.take(h); err != nil {
			return err
		}
		w.at += headSize + int64(h.stored)
	}
	return nil
}

// A walker goes through a file's heads.
type walker struct {
	r       *Reader
	at      int64
	next    uint64 // the number that the next block is to have
	last    uint64 // time of the block before
	damaged bool   // since the block before
	told    *leftOut
}

// resync looks for the next head after damage.
func (w *walker) resync() bool {
	w.damaged = true
	buffer := make([]byte, 1<<20)
	for at := w.at + 1; at+headSize <= w.r.size; at += int64(len(buffer)) - headSize + 1 {
		n, err := w.r.file.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		for i := 0; i+headSize <= n; i++ {
			if buffer[i] == sync&0xff && buffer[i+1] == sync>>8&0xff {
				if _, ok := parseHead(buffer[i:n]); ok {
					w.at = at + int64(i)
					return true
				}
			}
		}
	}
	return false
}

// take takes a block.
func (w *walker) take(h head) error {
	r := w.r
	p := place{offset: w.at + headSize, head: h}
	switch h.kind {
	case kindState, kindCheckpoint:
		return w.takeState(p)
	case kindHeader:
		if r.header.Version != "" {
			return nil
		}
		return r.readHeader(p)
	case kindLeftOut:
		if text, err := r.payload(p); err == nil {
			w.tell(text)
		}
		return nil
	case kindEnd:
		if text, err := r.payload(p); err == nil {
			end := new(ending)
			if json.Unmarshal(text, end) == nil {
				r.end = end
			}
		}
	}
	if w.next == 0 {
		w.next = 1
	}
	if h.number < w.next && h.kind != kindEnd {
		return nil // it was read already: the file was put together by somebody else
	}
	if h.number > w.next || w.damaged && h.number >= w.next {
		p.gap = w.gap(h)
	}
	w.next, w.last, w.damaged, w.told = h.number+1, h.last, false, nil
	r.blocks = append(r.blocks, p)
	r.total += uint64(h.events)
	return nil
}

// tell takes what the writer says of blocks that it left out. There may be several such before the next block.
func (w *walker) tell(text []byte) {
	var more leftOut
	_ = json.Unmarshal(text, &more) // what it doesn't say is not known
	if w.told == nil {
		w.told = &more
		return
	}
	w.told.Blocks += more.Blocks
	w.told.Events += more.Events
	w.told.Last = max(w.told.Last, more.Last)
}

// gap notes what is missing before a block; its number is 0 where nothing is.
func (w *walker) gap(h head) int32 {
	if h.number == w.next {
		return 0 // only what nobody needs is damaged
	}
	g := Gap{First: w.last, Last: h.first, Blocks: h.number - w.next, Why: "damaged or missing in the file"}
	if h.kind == kindEnd {
		g.Last = 0
		if w.r.end != nil && w.r.end.Why != "" {
			g.Why = w.r.end.Why
		}
	}
	if w.told != nil && w.told.Blocks == g.Blocks {
		g.Events, g.Why = w.told.Events, "left out, as the disk was too slow"
		g.First, g.Last = max(g.First, w.told.First), w.told.Last
	}
	if len(w.r.gaps) == maxGaps {
		w.r.more++
		return maxGaps
	}
	w.r.gaps = append(w.r.gaps, g)
	return int32(len(w.r.gaps))
}

func (r *Reader) readHeader(p place) error {
	if p.head.raw > maxHeader {
		return nil
	}
	text, err := r.payload(p)
	if err != nil {
		return nil // there is a second one
	}
	var h Header
	if err := json.Unmarshal(text, &h); err != nil || h.Version == "" {
		return fmt.Errorf("%w: %w", ErrNoHeader, errors.Join(errDamaged, err))
	}
	r.header = h
	return nil
}

// payload reads what a block has. It is valid until the next call.
func (r *Reader) payload(p place) ([]byte, error) {
	n := int(p.head.stored)
	if cap(r.stored) < n {
		r.stored = make([]byte, n)
	}
	r.stored = r.stored[:n]
	if _, err := r.file.ReadAt(r.stored, p.offset); err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	if checksum(r.stored) != p.head.crc {
		return nil, errDamaged
	}
	raw, err := r.zip.decompress(r.raw, &p.head, r.stored)
	if err == nil {
		r.raw = raw
	}
	return raw, err
}

// errStop ends a walk through the inputs early.
var errStop = errors.New("stop")

// Inputs gives all inputs in their order; gap, if not nil, is told of what is missing where it is. Events and Stacks
// are lent, as those of package input are. The error is take's, or that of reading the file.
func (r *Reader) Inputs(take func(input.Input) error, gap func(Gap) error) error {
	if gap == nil {
		gap = func(Gap) error { return nil }
	}
	for i := range r.blocks {
		p := &r.blocks[i]
		if err := r.watch(i); err != nil {
			return err
		}
		if p.gap != 0 {
			if err := gap(r.gaps[p.gap-1]); err != nil {
				return err
			}
		}
		if p.head.kind != kindInputs {
			continue
		}
		if err := r.block(p, false, take, gap); err != nil {
			return err
		}
	}
	return r.watch(len(r.blocks))
}

// watch tells who watches that so many blocks are done.
func (r *Reader) watch(blocks int) error {
	switch {
	case r.Watch == nil:
		return nil
	case blocks == len(r.blocks):
		return r.Watch(1)
	}
	return r.Watch(float64(r.blocks[blocks].offset) / float64(r.size))
}

// block gives the inputs of a block, or its Names alone.
func (r *Reader) block(p *place, namesAlone bool, take func(input.Input) error, gap func(Gap) error) error {
	payload, err := r.payload(*p)
	given := uint64(0)
	if err == nil {
		given, err = r.inputs(payload, namesAlone, take)
	}
	if errors.Is(err, errDamaged) || errors.Is(err, errCompression) {
		return gap(Gap{First: p.head.first, Last: p.head.last, Blocks: 1, Events: uint64(p.head.events) - min(given, uint64(p.head.events)), Why: "damaged in the file"})
	}
	return err
}

func (r *Reader) inputs(payload []byte, namesAlone bool, take func(input.Input) error) (events uint64, err error) {
	if err := takeApart(payload, &r.cols); err != nil {
		return 0, err
	}
	if err := r.stacks.begin(&r.cols); err != nil {
		return 0, err
	}
	if !namesAlone {
		if err := r.events.begin(&r.cols, &r.stacks); err != nil {
			return 0, err
		}
	}
	if err := r.names.begin(&r.cols); err != nil {
		return 0, err
	}
	for script := &r.cols[colScript]; !script.done(); {
		switch tag := script.byte(); tag {
		case tagEvents, tagHeld:
			n := script.uvarint()
			if namesAlone {
				continue
			}
			given, err := r.giveEvents(tag, n, take)
			if events += given; err != nil {
				return events, err
			}
		case tagStack:
			var s input.Stack
			if namesAlone {
				continue
			}
			if !r.stacks.next(&r.cols, &s.Stack) {
				return events, errDamaged
			}
			if err := take(s); err != nil {
				return events, err
			}
		case tagNames:
			names, err := r.names.next(&r.cols, &r.stacks)
			if err == nil {
				err = take(names)
			}
			if err != nil {
				return events, err
			}
		default:
			if err := r.giveOther(tag, namesAlone, take); err != nil {
				return events, err
			}
		}
		if script.bad {
			return events, errDamaged
		}
	}
	return events, nil
}

func (r *Reader) giveEvents(tag byte, n uint64, take func(input.Input) error) (given uint64, err error) {
	for given < n {
		part := r.batch[:min(batch, n-given)]
		for i := range part {
			if !r.events.next(&r.cols, &part[i]) {
				return given, errDamaged
			}
		}
		var in input.Input = &r.lend
		if r.lend.Events, r.held.Events = part, part; tag == tagHeld {
			in = &r.held
		}
		if err := take(in); err != nil {
			return given, err
		}
		given += uint64(len(part))
	}
	return given, nil
}

func (r *Reader) giveOther(tag byte, namesAlone bool, take func(input.Input) error) error {
	c := &r.cols[colOther]
	b := c.bytes()
	switch {
	case c.bad:
		return errDamaged
	case others[tag] == nil:
		r.unknown++ // of a later version
		return nil
	case namesAlone:
		return nil
	}
	in, err := decodeOther(tag, b)
	if err != nil {
		return err
	}
	return take(in)
}
