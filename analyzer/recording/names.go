package recording

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/input"
)

// Bounds of the names of one stack, and of all in a block.
const (
	maxNamed     = 16 << 10
	maxNameRefs  = 1 << 22
	maxNameBytes = 64 << 10 // of one frame
	maxNames     = 1 << 18  // frames in a block: the writer ends one long before
)

// A nameEncoder encodes Names: a frame is written once a block, however many stacks go through it, and so is what
// stacks have in common from their outermost frame on.
type nameEncoder struct {
	frames map[*input.Frame]uint32
	nodes  map[treeKey]uint32 // from 1 on; 0 is the root
	stack  uint64
	refs   int // of all stacks of the block
	stacks *stackEncoder
}

func newNameEncoder(stacks *stackEncoder) *nameEncoder {
	return &nameEncoder{frames: make(map[*input.Frame]uint32), nodes: make(map[treeKey]uint32), stacks: stacks}
}

func (x *nameEncoder) reset() {
	clear(x.frames)
	clear(x.nodes)
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
	to = x.stacks.appendID(to, v.ID)
	to = appendSigned(to, int64(v.Stack-x.stack))
	x.stack = v.Stack
	node, left := uint32(0), len(v.Frames)
	for ; left > 0; left-- {
		number, ok := x.frames[v.Frames[left-1]]
		next, known := x.nodes[treeKey{node, uint64(number)}]
		if !ok || !known {
			break
		}
		node = next
	}
	to = appendUvarint(appendUvarint(to, uint64(node)), uint64(left))
	for ; left > 0; left-- {
		number, err := x.number(cols, v.Frames[left-1])
		if err != nil {
			return err
		}
		to = appendUvarint(to, uint64(number))
		key := treeKey{node, uint64(number)}
		node = uint32(len(x.nodes)) + 1
		x.nodes[key] = node
	}
	cols[colNames] = to
	x.refs += len(v.Frames)
	return nil
}

// number is that of a frame, which is written if it is new.
func (x *nameEncoder) number(cols *[columns][]byte, f *input.Frame) (uint32, error) {
	if number, ok := x.frames[f]; ok {
		return number, nil
	}
	b, err := encoding.Marshal(f)
	if err == nil && len(b) > maxNameBytes {
		b, err = encoding.Marshal(input.Frame{Function: "a name of more than 64 KiB", Module: cut(f.Module), Offset: f.Offset})
	}
	if err != nil {
		return 0, err
	}
	number := uint32(len(x.frames))
	x.frames[f] = number
	cols[colFrameNames] = append(appendUvarint(cols[colFrameNames], uint64(len(b))), b...)
	return number, nil
}

func cut(s string) string { return s[:min(len(s), 4096)] }

// A nameDecoder gives them back. Stacks share their frames, as they did.
type nameDecoder struct {
	frames []*input.Frame
	nodes  []treeNode
	stack  uint64
	refs   int
}

func (x *nameDecoder) begin(cols *[columns]column) error {
	x.frames, x.nodes, x.stack, x.refs = nil, append(x.nodes[:0], treeNode{}), 0, 0
	for c := &cols[colFrameNames]; !c.done(); {
		b := c.bytes()
		f := new(input.Frame)
		if c.bad || len(b) > maxNameBytes || len(x.frames) == maxNames || decoding.Unmarshal(b, f) != nil {
			return errDamaged
		}
		x.frames = append(x.frames, f)
	}
	return nil
}

func (x *nameDecoder) next(cols *[columns]column) (input.Names, error) {
	c := &cols[colNames]
	v := input.Names{PID: c.uint32(), Last: c.byte() != 0}
	var ok bool
	if v.ID, ok = readID(c, &cols[colStackIDs]); !ok {
		return v, errDamaged
	}
	x.stack += uint64(c.signed())
	v.Stack = x.stack
	node, more := c.uvarint(), c.count(maxNamed)
	if c.bad || node >= uint64(len(x.nodes)) || int(x.nodes[node].depth)+more > maxNamed {
		return v, errDamaged
	}
	at := uint32(node)
	for range more {
		k := c.uvarint()
		if c.bad || k >= uint64(len(x.frames)) {
			return v, errDamaged
		}
		x.nodes = append(x.nodes, treeNode{at, x.nodes[at].depth + 1, k})
		at = uint32(len(x.nodes) - 1)
	}
	if x.refs += int(x.nodes[at].depth); x.refs > maxNameRefs {
		return v, errDamaged
	}
	v.Frames = make([]*input.Frame, 0, x.nodes[at].depth)
	for ; at != 0; at = x.nodes[at].parent {
		v.Frames = append(v.Frames, x.frames[x.nodes[at].frame])
	}
	return v, nil
}
