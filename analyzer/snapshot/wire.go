package snapshot

import (
	"encoding/binary"
	"fmt"
)

// Blocks hold messages in the wire format of protocol buffers
// (https://protobuf.dev/programming-guides/encoding/), which older and newer
// programs can both read: of fields that are numbers, and fields that are
// bytes. Fields of zero are left out, fields that are not known are skipped.

// Wire types.
const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

// encoder appends fields to buf.
type encoder struct{ buf []byte }

func (e *encoder) tag(field, wire int) {
	e.buf = binary.AppendUvarint(e.buf, uint64(field)<<3|uint64(wire))
}

func (e *encoder) uint(field int, v uint64) {
	if v != 0 {
		e.tag(field, wireVarint)
		e.buf = binary.AppendUvarint(e.buf, v)
	}
}

// sint is for numbers that may be negative (sint64).
func (e *encoder) sint(field int, v int64) { e.uint(field, zigzag(v)) }

func (e *encoder) bool(field int, v bool) {
	if v {
		e.uint(field, 1)
	}
}

func (e *encoder) text(field int, s string) {
	if s != "" {
		e.item(field, s)
	}
}

// item is text for repeated fields, where an empty string counts.
func (e *encoder) item(field int, s string) {
	e.tag(field, wireBytes)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(s)))
	e.buf = append(e.buf, s...)
}

// message encodes a message within; empty ones count.
func (e *encoder) message(field int, encode func(*encoder)) {
	e.tag(field, wireBytes)
	at := len(e.buf)
	encode(e)
	size := len(e.buf) - at
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(size))
	e.buf = append(e.buf, length[:n]...) // room for the length, which goes before
	copy(e.buf[at+n:], e.buf[at:at+size])
	copy(e.buf[at:], length[:n])
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// field is one field of a message: v of a number, or data.
type field struct {
	number int
	wire   int
	v      uint64
	data   []byte
}

func (f field) text() string { return string(f.data) }

// eachField calls fn for the fields of a message in turn.
func eachField(msg []byte, fn func(field) error) error {
	for len(msg) > 0 {
		f, rest, err := nextField(msg)
		if err != nil {
			return err
		}
		if err := fn(f); err != nil {
			return err
		}
		msg = rest
	}
	return nil
}

func nextField(msg []byte) (f field, rest []byte, err error) {
	tag, n := binary.Uvarint(msg)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
		return f, nil, fmt.Errorf("%w: bad field number", ErrCorrupt)
	}
	f.number, f.wire, msg = int(tag>>3), int(tag&7), msg[n:]
	switch f.wire {
	case wireVarint:
		if f.v, n = binary.Uvarint(msg); n <= 0 {
			return f, nil, fmt.Errorf("%w: field %d is cut off", ErrCorrupt, f.number)
		}
		return f, msg[n:], nil
	case wireBytes:
		length, n := binary.Uvarint(msg)
		if n <= 0 || length > uint64(len(msg)-n) {
			return f, nil, fmt.Errorf("%w: field %d is cut off", ErrCorrupt, f.number)
		}
		f.data = msg[n : n+int(length)]
		return f, msg[n+int(length):], nil
	case wireFixed8, wireFixed4: // not ours, but may be a newer version's
		size := 8
		if f.wire == wireFixed4 {
			size = 4
		}
		if len(msg) < size {
			return f, nil, fmt.Errorf("%w: field %d is cut off", ErrCorrupt, f.number)
		}
		return f, msg[size:], nil
	}
	return f, nil, fmt.Errorf("%w: field %d has the unknown wire type %d", ErrCorrupt, f.number, f.wire)
}
