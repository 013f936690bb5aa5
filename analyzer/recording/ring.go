package recording

import (
	"encoding/json"
	"errors"
	"fmt"
)

// A ring is the list of what is kept of what a Writer writes, in the order in which it was written. It begins with a
// checkpoint, or as the trace did; where the bytes are is its owner's.
type ring struct {
	keep    uint64        // ns
	start   checkpointEnd // with which it begins; Before is 1 at first
	entries []entry
	states  []checkpointEnd // complete ones after that, the oldest first
	at      uint64          // of the one that is being written
	parts   int             // of that one, so far
	held    int64           // bytes of the last complete one
	fresh   int64           // bytes that go on from it
	size    int64           // of all entries
	last    uint64          // the latest time that a block has
	first   uint64          // when it was asked first whether it wants a checkpoint
	next    uint64          // the number after the last block's
	zip     decompressor
}

// An entry is a block of the ring.
type entry struct {
	head   head
	size   int64
	offset int64  // in the file, or
	bytes  []byte // in memory
}

func newRing(keep uint64) ring {
	return ring{keep: keep, start: checkpointEnd{Before: 1}, zip: newDecompressor(), next: 1}
}

// add notes a block that was written.
func (r *ring) add(e entry, raw []byte) {
	r.entries = append(r.entries, e)
	r.size += e.size
	switch h := &e.head; h.kind {
	case kindState:
		if h.first != r.at {
			r.at, r.parts = h.first, 0
		}
		r.parts++
	case kindCheckpoint:
		var s checkpointEnd
		text, err := r.zip.decompress(nil, h, raw[headSize:])
		if err == nil && json.Unmarshal(text, &s) == nil && int(s.Parts) == r.parts {
			r.states = append(r.states, s)
			r.weigh(&s)
		}
		r.parts = 0
	default:
		r.fresh += e.size
		r.last = max(r.last, h.last)
		if h.number != 0 {
			r.next = max(r.next, h.number+1)
		}
	}
}

// weigh notes what a checkpoint takes that has just become complete, and what goes on from it already.
func (r *ring) weigh(s *checkpointEnd) {
	r.held, r.fresh = 0, 0
	for i := range r.entries {
		switch e := &r.entries[i]; {
		case s.owns(&e.head):
			r.held += e.size
		case e.head.number >= s.Before:
			r.fresh += e.size
		}
	}
}

// cut is the newest checkpoint that is at least keep old, from the newest time on; nil: there is none after that with which the ring begins.
func (r *ring) cut() *checkpointEnd {
	for i := len(r.states) - 1; i >= 0; i-- {
		if s := &r.states[i]; s.At+r.keep <= r.last {
			return s
		}
	}
	return nil
}

// owns reports whether an entry is of the checkpoint itself.
func (s *checkpointEnd) owns(h *head) bool {
	return (h.kind == kindState || h.kind == kindCheckpoint) && h.first == s.At
}

// stays reports whether an entry belongs to what begins with a checkpoint.
func (s *checkpointEnd) stays(h *head) bool {
	switch h.kind {
	case kindHeader:
		return true
	case kindState, kindCheckpoint:
		return h.first >= s.At
	}
	return h.number >= s.Before
}

// kept is the size of what stays once the ring begins with a checkpoint.
func (r *ring) kept(s *checkpointEnd) (n int64) {
	for i := range r.entries {
		if e := &r.entries[i]; s.stays(&e.head) {
			n += e.size
		}
	}
	return n
}

// drop lets go of all that is before a checkpoint.
func (r *ring) drop(s checkpointEnd) {
	out := r.entries[:0]
	for _, e := range r.entries {
		if s.stays(&e.head) {
			out = append(out, e)
		} else {
			r.size -= e.size
		}
	}
	clear(r.entries[len(out):])
	r.entries = out
	r.begin(s)
}

// begin has the ring begin with a checkpoint.
func (r *ring) begin(s checkpointEnd) {
	r.start = s
	for len(r.states) > 0 && r.states[0].At <= s.At {
		r.states = r.states[1:]
	}
}

// inOrder yields what a file that begins with a checkpoint is to have, in its order: all of the checkpoint comes before
// what goes on from it. It is to be called for parts of the entries, first with the checkpoint's alone.
func (s *checkpointEnd) inOrder(entries []entry, own bool, yield func(e *entry) error) error {
	for i := range entries {
		e := &entries[i]
		isOwn := e.head.kind == kindHeader || s.owns(&e.head)
		if isOwn != own || !s.stays(&e.head) {
			continue
		}
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

// wantsCheckpoint reports whether it is time for one: each quarter of the time that is to be kept, and of the room.
func (r *ring) wantsCheckpoint(now uint64, room int64) bool {
	newest := r.start.At
	if n := len(r.states); n > 0 {
		newest = r.states[n-1].At
	}
	if r.first == 0 {
		r.first = now
	}
	return now-min(now, max(newest, r.first)) >= r.keep/4 || r.fresh > room/4
}

// isPressed reports whether the room may not suffice for another checkpoint beside the last one, and what goes on from it, if that waits.
func (r *ring) isPressed(room int64) bool { return r.held+r.fresh > room/2 }

// errNothing is the error of a ring that has no checkpoint to begin with.
var errNothing = errors.New("what lives and what has happened since take more memory than the ring may have, and nothing could be kept: give more (--max-size)")

// parseWritten reads the head of what a Writer writes at once: one block. ok is false for a file's first bytes.
func parseWritten(b []byte) (h head, ok bool, err error) {
	if Is(b) {
		return h, false, nil
	}
	h, ok = parseHead(b)
	if !ok || len(b) != headSize+int(h.stored) {
		return h, false, fmt.Errorf("keep the last of a recording: %w", errDamaged)
	}
	return h, true, nil
}
