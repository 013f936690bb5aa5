package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	gosync "sync"
	"time"
)

// maxWaiting is how many blocks may wait to be written. What comes while so many do is left out, as a trace waits
// for no disk.
const maxWaiting = 8

// ErrFull is the error of a recording that has come to its Options.MaxSize.
var ErrFull = errors.New("the recording has come to its largest size")

// Status is how the writing of a recording goes.
type Status struct {
	Bytes         int64  // in the file
	LeftOutEvents uint64 // as the disk was too slow, or nothing could be written any more
	LeftOutBlocks uint64
	Err           error // why nothing is written any more; nil: it is
}

// A disk compresses blocks and writes them, in a goroutine of its own.
type disk struct {
	file       File
	compressor compressor
	maxSize    int64
	queue      chan block
	apart      chan block // parts of checkpoints, which wait for their turn
	buffers    chan []byte
	done       chan struct{}
	number     uint64 // of the next block; for put alone
	left       leftOut
	waits      bool   // for tests: put leaves nothing out
	writing    []byte // of the goroutine
	synced     time.Time

	mu   gosync.Mutex
	stat Status
}

type block struct {
	head    head
	payload []byte
	parts   []int  // lengths of what is compressed by itself
	do      func() // instead of a block: what is to be done once all before is written
}

// wholeBlock is a block of one part.
func wholeBlock(h head, payload []byte) block {
	return block{head: h, payload: payload, parts: []int{len(payload)}}
}

// leftOut is the payload of a block that stands for those that were not written.
type leftOut struct {
	Blocks uint64 `json:"blocks"`
	Events uint64 `json:"events"`
	First  uint64 `json:"first_ns"`
	Last   uint64 `json:"last_ns"`
}

// ending is the payload of the last block.
type ending struct {
	Blocks  uint64 `json:"blocks"`  // before this one
	Skipped uint64 `json:"skipped"` // inputs that could not be recorded
	Why     string `json:"why,omitempty"`
}

func newDisk(f File, c compressor, maxSize int64) *disk {
	if maxSize == 0 {
		maxSize = math.MaxInt64
	}
	return &disk{
		file: f, compressor: c, maxSize: maxSize, queue: make(chan block, maxWaiting), buffers: make(chan []byte, maxWaiting+2),
		apart: make(chan block), done: make(chan struct{}),
	}
}

// begin writes the file's beginning, so that it is known at once whether it can be written.
func (d *disk) begin(header []byte) error {
	d.write(appendPrefix(nil))
	for range 2 { // nothing can be read without one
		d.writeBlock(wholeBlock(head{kind: kindHeader}, header))
	}
	if err := d.stat.Err; err != nil {
		return fmt.Errorf("begin the recording: %w", err)
	}
	d.number = 1
	go d.run()
	return nil
}

// buffer is an empty one that was used before, if there is one.
func (d *disk) buffer() []byte {
	select {
	case b := <-d.buffers:
		return b[:0]
	default:
		return nil
	}
}

// put hands a block over, or leaves it out where too many wait. The payload is the disk's from now on.
func (d *disk) put(h head, payload []byte) { d.putParts(h, payload, []int{len(payload)}) }

// putParts hands a block over whose parts are of these lengths.
func (d *disk) putParts(h head, payload []byte, parts []int) {
	h.number = d.number
	d.number++
	if d.left.Blocks > 0 && !d.putLeftOut(h.number) {
		d.leaveOut(h)
		return
	}
	if d.waits {
		d.queue <- block{head: h, payload: payload, parts: parts}
		return
	}
	select {
	case d.queue <- block{head: h, payload: payload, parts: parts}:
	default:
		d.leaveOut(h)
	}
}

// putLeftOut writes what is missing before what comes after it.
func (d *disk) putLeftOut(number uint64) bool {
	text, err := json.Marshal(d.left)
	if err != nil {
		return false
	}
	select {
	case d.queue <- wholeBlock(head{kind: kindLeftOut, number: number, first: d.left.First, last: d.left.Last}, text):
		d.left = leftOut{}
		return true
	default:
		return false
	}
}

func (d *disk) leaveOut(h head) {
	if d.left.Blocks == 0 {
		d.left.First = h.first
	}
	d.left.Blocks++
	d.left.Events += uint64(h.events)
	d.left.Last = max(d.left.Last, h.last)
	d.countLeftOut(h)
}

func (d *disk) run() {
	defer close(d.done)
	for {
		select {
		case b, ok := <-d.queue:
			if !ok {
				return
			}
			d.handle(b)
		case b := <-d.apart:
			d.handle(b)
		}
	}
}

func (d *disk) handle(b block) {
	if b.do != nil {
		b.do()
		return
	}
	d.writeBlock(b)
	select {
	case d.buffers <- b.payload:
	default:
	}
}

// writeBlock writes a block whole, or nothing any more.
func (d *disk) writeBlock(b block) {
	if d.status().Err != nil {
		d.countLeftOut(b.head)
		return
	}
	h := b.head
	h.raw = uint32(len(b.payload))
	out := append(d.writing[:0], make([]byte, headSize)...)
	out, h.compression = d.compressor.compress(out, b.payload, b.parts)
	h.stored = uint32(len(out) - headSize)
	h.crc = checksum(out[headSize:])
	h.append(out[:0])
	d.writing = out
	if !d.write(out) {
		d.countLeftOut(h)
	}
}

// countLeftOut counts a block that is not in the file.
func (d *disk) countLeftOut(h head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stat.LeftOutBlocks++
	d.stat.LeftOutEvents += uint64(h.events)
}

// write reports whether the bytes are in the file.
func (d *disk) write(b []byte) bool {
	before := d.status().Bytes
	at := before
	var err error
	switch {
	case at+int64(len(b)) > d.maxSize:
		err = ErrFull
	default:
		if _, err = d.file.Write(b); err != nil {
			// What there is of the block would pass for damage.
			err = errors.Join(err, d.file.Truncate(at))
		} else {
			at += int64(len(b))
			err = d.syncNow(false)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stat.Bytes, d.stat.Err = at, err
	return at > before
}

// syncNow has the file on the disk each second, for what a crash of the machine leaves.
func (d *disk) syncNow(always bool) error {
	if !always && time.Since(d.synced) < time.Second {
		return nil
	}
	d.synced = time.Now()
	return d.file.Sync()
}

func (d *disk) status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stat
}

// close waits for what is to be written, and says that it is all.
func (d *disk) close(skipped uint64) error {
	if d.left.Blocks > 0 {
		text, err := json.Marshal(d.left)
		if err == nil {
			d.queue <- wholeBlock(head{kind: kindLeftOut, number: d.number, first: d.left.First, last: d.left.Last}, text)
		}
	}
	close(d.queue)
	<-d.done
	end := ending{Blocks: d.number, Skipped: skipped}
	err := d.status().Err
	if errors.Is(err, ErrFull) { // there is room for some hundred bytes more
		end.Why = ErrFull.Error()
		d.maxSize = math.MaxInt64
		d.stat.Err = nil
	}
	if text, e := json.Marshal(end); e == nil {
		d.writeBlock(wholeBlock(head{kind: kindEnd, number: d.number}, text))
		if end.Why != "" && d.stat.Err == nil {
			d.stat.Err = err // it still is why nothing was written
		}
	}
	if err == nil {
		if err = d.status().Err; err == nil {
			err = d.syncNow(true)
		}
	}
	return errors.Join(err, d.file.Close())
}
