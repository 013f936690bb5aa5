package recording

import (
	"encoding/json"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
)

// A checkpointEnd is the payload of the block that says that a checkpoint is complete.
type checkpointEnd struct {
	At     uint64 `json:"at_ns"`  // CLOCK_MONOTONIC; its parts have it as their first and last time
	Before uint64 `json:"before"` // the number of the block that goes on from it
	Parts  uint32 `json:"parts"`
	Blocks uint64 `json:"blocks"` // that lived
	Bytes  uint64 `json:"bytes"`
}

// A stateWriter writes a checkpoint in a goroutine of its own, from the analyzer's copy: what happens meanwhile goes
// on being recorded between its parts.
type stateWriter struct {
	disk *disk
	end  checkpointEnd
	quit chan struct{} // closed to give up
	done chan struct{} // closed once all is handed over
	took time.Duration // until then; valid once done is closed
	over time.Time     // when that was
}

// restFactor is how many times as long as it took nothing is done after a checkpoint: it costs a tenth of a processor
// at most, however large the heap is. Where all would be lost meanwhile, it is half of one.
const (
	restFactor    = 10
	pressedFactor = 1
)

// Checkpoint has what lives now written beside what comes, so that a recording may begin here. It returns at once. While
// one is being written, soon after one that took long, or once nothing is written any more, it does nothing and returns
// false. pressed has it rest less.
func (w *Writer) Checkpoint(at uint64, pressed bool, take func() *analyzer.Checkpoint) bool {
	if w.state.isRunning() || w.state.rests(pressed) || w.disk.status().Err != nil {
		return false
	}
	w.flush()
	w.shown = nil // so that it stands behind the checkpoint, too
	c := take()
	x := &stateWriter{
		disk: w.disk, quit: make(chan struct{}), done: make(chan struct{}),
		end: checkpointEnd{At: at, Before: w.disk.number, Blocks: c.Blocks, Bytes: c.Bytes},
	}
	w.state = x
	go x.run(c)
	return true
}

func (x *stateWriter) isRunning() bool {
	if x == nil {
		return false
	}
	select {
	case <-x.done:
		return false
	default:
		return true
	}
}

// rests reports whether the last one has ended too lately for another one.
func (x *stateWriter) rests(pressed bool) bool {
	factor := time.Duration(restFactor)
	if pressed {
		factor = pressedFactor
	}
	return x != nil && time.Since(x.over) < factor*x.took
}

// stop gives up what is not written yet; the parts that are there are passed over by readers.
func (x *stateWriter) stop() {
	if x != nil {
		close(x.quit)
		<-x.done
		x.quit = make(chan struct{})
	}
}

func (x *stateWriter) run(c *analyzer.Checkpoint) {
	defer close(x.done)
	defer x.noteTime(time.Now())
	stacks := newStackEncoder()
	w := &Writer{events: newEventEncoder(stacks), stacks: stacks, names: newNameEncoder(stacks), disk: x.disk, kind: kindState}
	w.put = func(h head, payload []byte, parts []int) {
		x.end.Parts++
		x.put(block{head: h, payload: payload, parts: parts})
	}
	w.reset()
	err := c.Inputs(func(in input.Input) error {
		w.Take(in)
		select {
		case <-x.quit:
			return errStop
		default:
			return nil
		}
	})
	w.flush()
	if text, e := json.Marshal(x.end); err == nil && e == nil && w.skip == 0 {
		x.put(wholeBlock(head{kind: kindCheckpoint}, text))
	}
}

func (x *stateWriter) noteTime(began time.Time) { x.over, x.took = time.Now(), time.Since(began) }

// put waits for the disk.
func (x *stateWriter) put(b block) {
	b.head.number, b.head.first, b.head.last = 0, x.end.At, x.end.At
	select {
	case x.disk.apart <- b:
	case <-x.quit:
	}
}

// After runs a function once all that was given is written, in the goroutine that writes.
func (w *Writer) After(do func()) {
	w.flush()
	w.disk.queue <- block{do: do}
}
