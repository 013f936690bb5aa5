package recording

import (
	"bytes"
	"encoding/json"
	"io"
	gosync "sync"
)

// A MemoryRing is a File for a Writer that keeps the last of a recording in memory. It takes no more than a room: where
// that is too small for the time that is to be kept, it keeps less.
type MemoryRing struct {
	mu     gosync.Mutex
	ring   ring
	room   int64
	prefix []byte
	empty  bool   // there was no room for anything: what is there begins with no checkpoint
	gone   uint64 // the number of the last block that was dropped then
}

// Room of a MemoryRing, in bytes: what it has by itself, and the least.
const (
	DefaultRoom = 256 << 20
	LeastRoom   = 1 << 20
)

// NewMemoryRing keeps at least the last ns, in at most room bytes.
func NewMemoryRing(keep uint64, room int64) *MemoryRing {
	return &MemoryRing{ring: newRing(keep), room: room}
}

// Write takes a block.
func (m *MemoryRing) Write(b []byte) (int, error) {
	h, isBlock, err := parseWritten(b)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own := bytes.Clone(b)
	if !isBlock {
		m.prefix = own
		return len(b), nil
	}
	m.ring.add(entry{head: h, size: int64(len(b)), bytes: own}, own)
	m.makeRoom()
	return len(b), nil
}

// makeRoom drops what is older than it has to be, and what there is no room for.
func (m *MemoryRing) makeRoom() {
	r := &m.ring
	if m.empty {
		m.beginAgain()
	}
	if s := r.cut(); s != nil {
		r.drop(*s)
	}
	for r.size > m.room && len(r.states) > 0 {
		r.drop(r.states[0])
	}
	if r.size > m.room { // nor is there a later checkpoint to begin with
		m.empty = true
		m.dropOldest()
	}
}

// beginAgain has a ring that was emptied begin with a checkpoint from which all goes on that is there.
func (m *MemoryRing) beginAgain() {
	r := &m.ring
	for len(r.states) > 0 && r.states[0].Before <= m.gone {
		r.states = r.states[1:]
	}
	if len(r.states) > 0 {
		m.empty = false
		r.drop(r.states[0])
	}
}

// dropOldest makes room at the beginning. The checkpoint that is being written stays, if there is room for it, as the
// ring can begin with it once it is complete.
func (m *MemoryRing) dropOldest() {
	r := &m.ring
	next := checkpointEnd{At: r.at}
	keeps := func(h *head) bool { return h.kind == kindHeader || r.parts > 0 && next.owns(h) }
	least := int64(0)
	for i := range r.entries {
		if e := &r.entries[i]; keeps(&e.head) {
			least += e.size
		}
	}
	if least > m.room {
		r.at, r.parts = 0, 0 // what comes of it is not complete
	}
	out := r.entries[:0]
	for _, e := range r.entries {
		isInput := e.head.kind != kindState && e.head.kind != kindCheckpoint
		if keeps(&e.head) || isInput && r.size <= m.room {
			out = append(out, e)
			continue
		}
		r.size -= e.size
		m.gone = max(m.gone, e.head.number)
	}
	clear(r.entries[len(out):])
	r.entries = out
}

// WantsCheckpoint reports whether it is time for one.
func (m *MemoryRing) WantsCheckpoint(now uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ring.wantsCheckpoint(now, m.room)
}

// IsPressed reports whether a checkpoint should not wait: without one, the ring may soon have to let go of all.
func (m *MemoryRing) IsPressed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ring.isPressed(m.room)
}

// Size is what is in memory, bytes.
func (m *MemoryRing) Size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ring.size
}

// Truncate, Sync and Close have nothing to do: a Write takes a block whole.
func (m *MemoryRing) Truncate(int64) error { return nil }

func (m *MemoryRing) Sync() error { return nil }

func (m *MemoryRing) Close() error { return nil }

// A Frozen is what a MemoryRing had at an instant.
type Frozen struct {
	From, To uint64 // ns, CLOCK_MONOTONIC; From is 0 where it has the trace's beginning
	Short    bool   // it has less than was to be kept, for want of room
	parts    [][]byte
}

// Freeze returns what is kept now, as a whole recording. It is to be called after the Writer has written all (After).
func (m *MemoryRing) Freeze() (*Frozen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.ring
	if m.empty {
		return nil, errNothing
	}
	f := &Frozen{From: r.start.At, To: r.last, parts: [][]byte{m.prefix}}
	f.Short = f.From != 0 && f.To-min(f.To, f.From) < r.keep
	take := func(e *entry) error {
		if e.head.kind != kindState && e.head.kind != kindCheckpoint || e.head.first == r.start.At {
			f.parts = append(f.parts, e.bytes)
		}
		return nil
	}
	_ = r.start.inOrder(r.entries, true, take)
	_ = r.start.inOrder(r.entries, false, take)
	text, err := json.Marshal(ending{Blocks: r.next})
	h := head{kind: kindEnd, number: r.next, stored: uint32(len(text)), raw: uint32(len(text)), crc: checksum(text)}
	f.parts = append(f.parts, append(h.append(nil), text...))
	return f, err
}

// WriteTo writes the recording.
func (f *Frozen) WriteTo(w io.Writer) (n int64, err error) {
	for _, b := range f.parts {
		k, err := w.Write(b)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}
