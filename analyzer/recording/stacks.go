package recording

import (
	"encoding/binary"

	"github.com/memtrace/memtrace/tracer/event"
)

// maxDepth bounds the frames of a stack, and with maxFrames what a block's stacks can make a reader write.
const (
	maxDepth  = 1 << 12
	maxFrames = 1 << 22
)

const (
	stackTruncated = 1 << iota
	stackDeeper
	stackFPGuess
	stackBottom
)

// Stacks of one block lie in a tree, from the outermost frame inwards: a stack says at which node it leaves what
// was there, and has the frames from there on.

type treeKey struct {
	parent uint32
	frame  uint64
}

type stackEncoder struct {
	nodes  map[treeKey]uint32       // from 1 on; 0 is the root
	ids    map[event.StackID]uint32 // from 1 on
	added  uint32
	frame  uint64 // the last one that was written
	time   uint64
	frames int // of all stacks of the block
}

func newStackEncoder() *stackEncoder {
	return &stackEncoder{nodes: make(map[treeKey]uint32), ids: make(map[event.StackID]uint32)}
}

func (x *stackEncoder) reset() {
	clear(x.nodes)
	clear(x.ids)
	x.added = 0
	x.frame, x.time, x.frames = 0, 0, 0
}

func (x *stackEncoder) add(cols *[columns][]byte, s *event.Stack) {
	frames := s.Frames
	var flags byte
	for i, set := range []bool{s.Truncated, s.Deeper, s.FPGuess, s.Bottom} {
		if set {
			flags |= 1 << i
		}
	}
	if len(frames) > maxDepth { // none that the tracer takes
		frames, flags = frames[:maxDepth], flags|stackTruncated|stackDeeper
	}
	x.added++
	x.ids[s.ID] = x.added
	cols[colStackIDs] = binary.LittleEndian.AppendUint64(cols[colStackIDs], uint64(s.ID))
	to := append(appendUvarint(cols[colStacks], uint64(s.PID)), flags)
	to = appendSigned(to, int64(s.Time-x.time))
	x.time = s.Time
	node, left := uint32(0), len(frames)
	for left > 0 {
		next, ok := x.nodes[treeKey{node, frames[left-1]}]
		if !ok {
			break
		}
		node, left = next, left-1
	}
	cols[colStacks] = appendUvarint(appendUvarint(to, uint64(node)), uint64(left))
	for ; left > 0; left-- {
		f := frames[left-1]
		cols[colFrames] = appendSigned(cols[colFrames], int64(f-x.frame))
		x.frame = f
		key := treeKey{node, f}
		node = uint32(len(x.nodes)) + 1
		x.nodes[key] = node
	}
	x.frames += len(frames)
}

// appendID writes which stack something is of.
func (x *stackEncoder) appendID(to []byte, id event.StackID) []byte {
	if k, ok := x.ids[id]; ok {
		return appendUvarint(to, uint64(k))
	}
	return binary.LittleEndian.AppendUint64(append(to, 0), uint64(id))
}

type stackDecoder struct {
	nodes  []treeNode
	frame  uint64
	time   uint64
	frames int
	buffer []uint64
}

type treeNode struct {
	parent uint32
	depth  uint32
	frame  uint64
}

func (x *stackDecoder) begin() {
	x.nodes = append(x.nodes[:0], treeNode{})
	x.frame, x.time, x.frames = 0, 0, 0
}

// next reads a stack. Its frames are lent until the next.
func (x *stackDecoder) next(cols *[columns]column, s *event.Stack) bool {
	c := &cols[colStacks]
	*s = event.Stack{ID: event.StackID(cols[colStackIDs].uint64()), PID: c.uint32()}
	flags := c.byte()
	s.Truncated, s.Deeper = flags&stackTruncated != 0, flags&stackDeeper != 0
	s.FPGuess, s.Bottom = flags&stackFPGuess != 0, flags&stackBottom != 0
	x.time += uint64(c.signed())
	s.Time = x.time
	node, more := c.uvarint(), c.count(maxDepth)
	if c.bad || node >= uint64(len(x.nodes)) || int(x.nodes[node].depth)+more > maxDepth {
		return false
	}
	at := uint32(node)
	for range more {
		x.frame += uint64(cols[colFrames].signed())
		x.nodes = append(x.nodes, treeNode{at, x.nodes[at].depth + 1, x.frame})
		at = uint32(len(x.nodes) - 1)
	}
	if x.frames += int(x.nodes[at].depth); x.frames > maxFrames || cols[colFrames].bad || cols[colStackIDs].bad {
		return false
	}
	if x.buffer == nil {
		x.buffer = []uint64{} // of a first stack without frames, too
	}
	x.buffer = x.buffer[:0]
	for ; at != 0; at = x.nodes[at].parent {
		x.buffer = append(x.buffer, x.nodes[at].frame)
	}
	s.Frames = x.buffer
	return true
}
