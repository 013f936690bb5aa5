package recording

import (
	"encoding/binary"
	"fmt"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// Bounds of the names of one stack, and of all in a block.
const (
	maxNamed     = 16 << 10
	maxNameRefs  = 1 << 22
	maxNameBytes = 64 << 10 // of one frame
)

// A nameEncoder encodes Names: a frame is written once a block, however many stacks go through it.
type nameEncoder struct {
	frames map[*input.Frame]uint32 // from 1 on
	stack  uint64
	refs   int // of all stacks of the block
}

func newNameEncoder() *nameEncoder { return &nameEncoder{frames: make(map[*input.Frame]uint32)} }

func (x *nameEncoder) reset() {
	clear(x.frames)
	x.stack, x.refs = 0, 0
}

func (x *nameEncoder) add(cols *[columns][]byte, v *input.Names) error {
	if len(v.Frames) > maxNamed {
		return fmt.Errorf("record the names of a stack: it has %d frames, and at most %d can be read back", len(v.Frames), maxNamed)
	}
	var last byte
	if v.Last {
		last = 1
	}
	to := append(appendUvarint(cols[colNames], uint64(v.PID)), last)
	to = binary.LittleEndian.AppendUint64(to, uint64(v.ID))
	to = appendSigned(to, int64(v.Stack-x.stack))
	x.stack = v.Stack
	to = appendUvarint(to, uint64(len(v.Frames)))
	for _, f := range v.Frames {
		number, ok := x.frames[f]
		if !ok {
			b, err := encoding.Marshal(f)
			if err == nil && len(b) > maxNameBytes {
				b, err = encoding.Marshal(input.Frame{Function: "a name of more than 64 KiB", Module: cut(f.Module), Offset: f.Offset})
			}
			if err != nil {
				return err
			}
			number = uint32(len(x.frames)) + 1
			x.frames[f] = number
			cols[colFrameNames] = append(appendUvarint(cols[colFrameNames], uint64(len(b))), b...)
		}
		to = appendUvarint(to, uint64(number))
	}
	cols[colNames] = to
	x.refs += len(v.Frames)
	return nil
}

func cut(s string) string { return s[:min(len(s), 4096)] }

// A nameDecoder gives them back. Stacks share their frames, as they did.
type nameDecoder struct {
	frames []*input.Frame
	stack  uint64
	refs   int
}

func (x *nameDecoder) begin(cols *[columns]column) error {
	x.frames, x.stack, x.refs = nil, 0, 0
	for c := &cols[colFrameNames]; !c.done(); {
		b := c.bytes()
		f := new(input.Frame)
		if c.bad || len(b) > maxNameBytes || decoding.Unmarshal(b, f) != nil {
			return errDamaged
		}
		x.frames = append(x.frames, f)
	}
	return nil
}

func (x *nameDecoder) next(c *column) (input.Names, error) {
	v := input.Names{PID: c.uint32(), Last: c.byte() != 0, ID: event.StackID(c.uint64())}
	x.stack += uint64(c.signed())
	v.Stack = x.stack
	n := c.count(maxNamed)
	if x.refs += n; c.bad || x.refs > maxNameRefs {
		return v, errDamaged
	}
	v.Frames = make([]*input.Frame, n)
	for i := range v.Frames {
		k := c.uvarint()
		if k == 0 || k > uint64(len(x.frames)) {
			return v, errDamaged
		}
		v.Frames[i] = x.frames[k-1]
	}
	if c.bad {
		return v, errDamaged
	}
	return v, nil
}
