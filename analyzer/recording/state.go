package recording

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
)

// A state is a checkpoint of a recording: what lived, from which a replay may begin.
type state struct {
	checkpointEnd
	parts []place
}

// takeState takes a block of a checkpoint. One of which something is missing is passed over.
func (w *walker) takeState(p place) error {
	r := w.r
	if p.head.kind == kindState {
		if n := len(r.parts); n > 0 && r.parts[n-1].head.first != p.head.first {
			r.parts = nil // of one that was never complete
		}
		if len(r.parts)+len(r.blocks) >= maxBlocks {
			return fmt.Errorf("read the recording: it has more than %d blocks", maxBlocks)
		}
		r.parts = append(r.parts, p)
		return nil
	}
	var s state
	text, err := r.payload(p)
	if err != nil || json.Unmarshal(text, &s.checkpointEnd) != nil || len(r.parts) == 0 || int(s.Parts) != len(r.parts) || r.parts[0].head.first != s.At {
		r.parts = nil
		return nil
	}
	s.parts, r.parts = r.parts, nil
	if len(r.states) == maxStates {
		return nil
	}
	r.states = append(r.states, s)
	if len(r.blocks) == 0 && w.next == 0 && s.Before > 1 {
		w.next, w.last = s.Before, s.At
	}
	return nil
}

// maxStates is above what a ring has of checkpoints.
const maxStates = 1 << 12

// firstState is the checkpoint that a replay has to begin with; nil where the recording has the trace's beginning.
func (r *Reader) firstState() *state {
	if len(r.blocks) > 0 && r.blocks[0].head.number == 1 || len(r.states) == 0 {
		return nil
	}
	return &r.states[0]
}

// From is the time from which on the recording tells what happened, ns of CLOCK_MONOTONIC: of the checkpoint that it
// begins with; carried is false where it has all from the trace's beginning.
func (r *Reader) From() (at uint64, carried bool) {
	if s := r.firstState(); s != nil {
		return s.At, true
	}
	return r.header.Config.Start, false
}

// begin gives what lived at the checkpoint that the recording begins with, and returns the index of the block from
// which on it is to be played. A checkpoint that is damaged is left for the next one.
func (p *player) begin() (int, error) {
	r := p.reader
	for len(r.blocks) > 0 && r.blocks[0].head.number != 1 {
		s := r.firstState()
		if s == nil {
			return 0, nil
		}
		whole, err := r.isWhole(s)
		if err != nil {
			return 0, err
		}
		if whole {
			return p.playState(s)
		}
		r.states = r.states[1:]
	}
	return 0, nil
}

// isWhole reports whether all parts of a checkpoint can be read.
func (r *Reader) isWhole(s *state) (bool, error) {
	for i := range s.parts {
		damaged := false
		err := r.block(&s.parts[i], false, func(input.Input) error { return nil }, func(Gap) error {
			damaged = true
			return nil
		})
		if err != nil || damaged {
			return false, err
		}
	}
	return true, nil
}

func (p *player) playState(s *state) (int, error) {
	r := p.reader
	p.renumbered = true
	for i := range s.parts {
		err := r.block(&s.parts[i], false, p.takeState, p.gap)
		if err != nil {
			return 0, err
		}
	}
	p.last, p.from = max(p.last, s.At), s.At
	for i := range r.blocks {
		if r.blocks[i].head.number >= s.Before {
			if first := &r.blocks[i]; i > 0 { // what was before is not asked for any more
				first.gap = 0
			}
			return i, nil
		}
	}
	return len(r.blocks), nil
}

// takeState gives one input of a checkpoint.
func (p *player) takeState(in input.Input) error {
	switch v := in.(type) {
	case input.Checkpoint, input.Carried, *input.Held, input.Started, input.Described, input.Stack, input.PoolName, input.ProcessLoss, input.Loss, input.Repair, input.FreeWalk:
	case input.LeftOut:
		p.leftOut = v // what is told later counts from the trace's beginning
		return nil
	case input.Names:
		if in = p.mend(v); in == nil {
			return nil
		}
	default:
		return nil // no checkpoint has it
	}
	if err := p.held.add(in); err != nil {
		return err
	}
	p.give(in)
	return nil
}

// fromWarning says from when on figures are counted.
func (p *player) fromWarning() string {
	h := &p.reader.header
	return fmt.Sprintf("the recording begins with what lived at %s, %v after the trace began: allocated, freed and temporary blocks, lifetimes, faults, peaks and growth are counted from then on, losses from the trace's beginning. Processes that had ended are not in it",
		h.Time(p.from).UTC().Format("15:04:05"), time.Duration(p.from-min(p.from, h.Config.Start)).Round(time.Millisecond))
}

// uncounted subtracts what was left out before the checkpoint.
func (p *player) uncounted(v input.LeftOut) input.LeftOut {
	b := p.leftOut
	return input.LeftOut{Alloc: v.Alloc - min(v.Alloc, b.Alloc), Free: v.Free - min(v.Free, b.Free), Realloc: v.Realloc - min(v.Realloc, b.Realloc)}
}
