package recording

import (
	"fmt"
	"unsafe"

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
	tree   treeEncoder
	before []*input.Frame // of the Names before, innermost first
	pid    uint32
	stack  uint64
	ref    uint32
	refs   int // of all stacks of the block
	stacks *stackEncoder
}

func newNameEncoder(stacks *stackEncoder) *nameEncoder {
	return &nameEncoder{frames: make(map[*input.Frame]uint32), tree: newTreeEncoder(), stacks: stacks}
}

func (x *nameEncoder) reset() {
	clear(x.frames)
	x.tree.reset()
	clear(x.before)
	x.before = x.before[:0]
	x.pid, x.stack, x.ref, x.refs = 0, 0, 0, 0
}

func (x *nameEncoder) add(cols *[columns][]byte, v *input.Names) error {
	if len(v.Frames) > maxNamed {
		return fmt.Errorf("record the names of a stack: it has %d frames, and at most %d can be read back", len(v.Frames), maxNamed)
	}
	left := x.enter(v.Frames)
	branch := x.tree.branch()
	for i := left; i > 0; i-- {
		number := x.number(cols, v.Frames[i-1])
		cols[colNameFrames] = appendUvarint(cols[colNameFrames], uint64(number))
		x.tree.grow(uint64(number))
	}
	cols[colNameTree] = appendUvarint(appendUvarint(cols[colNameTree], branch), uint64(left))
	var last byte
	if v.Last {
		last = 1
	}
	cols[colNames] = append(appendSigned(cols[colNames], int64(v.PID)-int64(x.pid)), last)
	cols[colNameIDs], cols[colNameRaw] = x.stacks.appendRef(cols[colNameIDs], cols[colNameRaw], &x.ref, v.ID)
	cols[colNameStacks] = appendSigned(cols[colNameStacks], int64(v.Stack-x.stack))
	x.pid, x.stack = v.PID, v.Stack
	x.before = append(x.before[:0], v.Frames...)
	x.refs += len(v.Frames)
	return nil
}

// enter goes as far into the tree as it has the frames, and returns how many it has not.
func (x *nameEncoder) enter(frames []*input.Frame) (left int) {
	shared, n, before := 0, len(frames), len(x.before)
	for shared < min(n, before) && frames[n-1-shared] == x.before[before-1-shared] {
		shared++
	}
	x.tree.begin(shared)
	for left = n - shared; left > 0; left-- {
		number, ok := x.frames[frames[left-1]]
		if !ok || !x.tree.follow(uint64(number)) {
			break
		}
	}
	return left
}

// number is that of a frame, which is written if it is new.
func (x *nameEncoder) number(cols *[columns][]byte, f *input.Frame) uint32 {
	if number, ok := x.frames[f]; ok {
		return number
	}
	b, err := encoding.Marshal(f)
	if err != nil || len(b) > maxNameBytes {
		b = must(encoding.Marshal(input.Frame{Function: "a name of more than 64 KiB", Module: cut(f.Module), Offset: f.Offset}))
	}
	number := uint32(len(x.frames))
	x.frames[f] = number
	cols[colFrameNames] = append(appendUvarint(cols[colFrameNames], uint64(len(b))), b...)
	return number
}

func cut(s string) string { return s[:min(len(s), 4096)] }

// A nameDecoder gives them back. Stacks share their frames, as they did.
type nameDecoder struct {
	frames []*input.Frame
	taken  int // bytes in memory that the frames take, until somebody has counted them
	tree   treeDecoder
	pid    uint32
	stack  uint64
	ref    uint32
	refs   int
}

func (x *nameDecoder) begin(cols *[columns]column) error {
	x.tree.reset()
	x.frames, x.taken, x.pid, x.stack, x.ref, x.refs = nil, 0, 0, 0, 0, 0
	for c := &cols[colFrameNames]; !c.done(); {
		b := c.bytes()
		f := new(input.Frame)
		if c.bad || len(b) > maxNameBytes || len(x.frames) == maxNames || decoding.Unmarshal(b, f) != nil {
			return errDamaged
		}
		x.frames = append(x.frames, f)
		x.taken += int(unsafe.Sizeof(*f)) + len(b)
	}
	return nil
}

func (x *nameDecoder) next(cols *[columns]column, stacks *stackDecoder) (input.Names, error) {
	c, tree := &cols[colNames], &cols[colNameTree]
	x.pid += uint32(c.signed())
	v := input.Names{PID: x.pid, Last: c.byte() != 0}
	var ok bool
	if v.ID, ok = stacks.ref(&cols[colNameIDs], &cols[colNameRaw], &x.ref); !ok {
		return v, errDamaged
	}
	x.stack += uint64(cols[colNameStacks].signed())
	v.Stack = x.stack
	branch, more := tree.uvarint(), tree.count(maxNamed)
	if c.bad || tree.bad || cols[colNameStacks].bad || !x.tree.begin(branch, more, maxNamed) {
		return v, errDamaged
	}
	for range more {
		k := cols[colNameFrames].uvarint()
		if cols[colNameFrames].bad || k >= uint64(len(x.frames)) {
			return v, errDamaged
		}
		x.tree.grow(k)
	}
	if x.refs += x.tree.depth(); x.refs > maxNameRefs {
		return v, errDamaged
	}
	v.Frames = make([]*input.Frame, 0, x.tree.depth())
	for at := x.tree.leaf; at != 0; at = x.tree.nodes[at].parent {
		v.Frames = append(v.Frames, x.frames[x.tree.nodes[at].frame])
	}
	return v, nil
}
