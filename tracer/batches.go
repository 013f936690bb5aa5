package tracer

import (
	"runtime/debug"

	"github.com/memtrace/memtrace/tracer/event"
)

// Batch is a run of events in order of time. Stacks come in the same batch as
// the first event that names them, or in an earlier one.
type Batch struct {
	Stacks []event.Stack
	Events []event.Event
	// Life are forks, execs and exits, as soon as they are read: those who must
	// act on them need not wait for their turn in Events, where they come too.
	Life []event.Event

	pool chan *Batch
}

// Release gives the batch back; its slices must not be used afterwards.
func (b *Batch) Release() {
	b.Stacks, b.Life, b.Events = nil, nil, b.Events[:0]
	b.pool <- b
}

const (
	batchEvents = 4096 // 256 KiB: what two cores pass on stays in their caches
	// maxBatches bounds what may wait for a reader that is busy: 512 MiB of
	// events, some two seconds of the fastest target. Beyond that the rings
	// fill, and what they can't take is counted.
	maxBatches = 2048
	// trimEvery is after how many batches those are let go of that none of them
	// needed: some seconds of a fast target, so that a reader who is busy at
	// regular intervals finds them again.
	trimEvery = 2048
	// spareBatches are kept in any case.
	spareBatches = 16
	// returnedBatches, 8 MiB, are so many that their memory is returned to the
	// system at once, by a collection of its own; fewer wait for the next one.
	returnedBatches = 32
)

// batches hands out empty batches and takes back those that have been read.
type batches struct {
	pool  chan *Batch
	made  int // that there are
	idle  int // the fewest that were in the pool since the last trim
	taken int // since then
}

func newBatches() batches { return batches{pool: make(chan *Batch, maxBatches), idle: maxBatches} }

// take gets an empty batch, waiting for the reader if all are in use; nil means
// that quit was closed.
func (p *batches) take(quit <-chan struct{}) *Batch {
	if p.taken++; p.taken >= trimEvery {
		p.trim()
	}
	select {
	case b := <-p.pool:
		p.idle = min(p.idle, len(p.pool))
		return b
	default:
		p.idle = 0
	}
	if p.made < maxBatches {
		p.made++
		return &Batch{Events: make([]event.Event, 0, batchEvents), pool: p.pool}
	}
	select {
	case b := <-p.pool:
		return b
	case <-quit:
		return nil
	}
}

// trim lets go of batches that a backlog has left and that nothing needed since.
func (p *batches) trim() {
	before := p.made
	for range p.idle - spareBatches {
		<-p.pool // nobody else takes them
		p.made--
	}
	if before-p.made >= returnedBatches {
		go debug.FreeOSMemory()
	}
	p.idle, p.taken = len(p.pool), 0
}
