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

// An origin is what the IDs of a process's stacks come from.
type origin struct {
	pid  uint32
	seed uint64
}

type stackEncoder struct {
	tree    treeEncoder
	outer   []outerFrame             // the stack before, outermost first
	ids     map[event.StackID]uint32 // from 1 on
	origins map[origin]uint32
	origin  origin // of the stack before
	number  uint32 // of that
	added   uint32
	frame   uint64 // the last one that was written
	time    uint64
	frames  int // of all stacks of the block
}

type outerFrame struct{ pc, sum uint64 }

func newStackEncoder() *stackEncoder {
	return &stackEncoder{tree: newTreeEncoder(), ids: make(map[event.StackID]uint32), origins: make(map[origin]uint32)}
}

func (x *stackEncoder) reset() {
	x.tree.reset()
	clear(x.ids)
	clear(x.origins)
	x.outer, x.added = x.outer[:0], 0
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
	left := x.enter(frames)
	cols[colStackTree] = appendUvarint(appendUvarint(cols[colStackTree], x.tree.branch()), uint64(left))
	for ; left > 0; left-- {
		f := frames[left-1]
		cols[colFrames] = appendSigned(cols[colFrames], int64(f-x.frame))
		x.frame = f
		x.tree.grow(f)
		x.push(f)
	}
	number := x.originOf(cols, origin{s.PID, originOf(s.ID, x.sum())})
	cols[colStacks] = append(appendUvarint(cols[colStacks], uint64(number)), flags)
	cols[colStackTimes] = appendSigned(cols[colStackTimes], int64(s.Time-x.time))
	x.time = s.Time
	x.frames += len(frames)
}

// enter goes as far into the tree as it has the frames, and returns how many it has not.
func (x *stackEncoder) enter(frames []uint64) (left int) {
	shared, n := 0, len(frames)
	for shared < min(n, len(x.outer)) && frames[n-1-shared] == x.outer[shared].pc {
		shared++
	}
	x.outer = x.outer[:shared]
	x.tree.begin(shared)
	for left = n - shared; left > 0 && x.tree.follow(frames[left-1]); left-- {
		x.push(frames[left-1])
	}
	return left
}

func (x *stackEncoder) push(pc uint64) {
	x.outer = append(x.outer, outerFrame{pc, frameSum(x.sum(), len(x.outer), pc)})
}

// sum is that of the frames so far.
func (x *stackEncoder) sum() uint64 {
	if n := len(x.outer); n > 0 {
		return x.outer[n-1].sum
	}
	return 0
}

func (x *stackEncoder) originOf(cols *[columns][]byte, o origin) uint32 {
	if len(x.origins) > 0 && o == x.origin {
		return x.number
	}
	number, ok := x.origins[o]
	if !ok {
		number = uint32(len(x.origins))
		x.origins[o] = number
		cols[colOrigins] = binary.LittleEndian.AppendUint64(appendUvarint(cols[colOrigins], uint64(o.pid)), o.seed)
	}
	x.origin, x.number = o, number
	return number
}

// appendRef writes which stack something is of; last is the one of the block that was written before to there.
func (x *stackEncoder) appendRef(to, raw []byte, last *uint32, id event.StackID) (_, _ []byte) {
	k, ok := x.ids[id]
	if !ok {
		return append(to, 0), binary.LittleEndian.AppendUint64(raw, uint64(id))
	}
	to = appendUvarint(to, 1+zigzag(int64(k)-int64(*last)-1))
	*last = k
	return to, raw
}

// A stackDecoder gives the stacks of a block back. Their IDs are known from the beginning.
type stackDecoder struct {
	tree    treeDecoder
	sums    []uint64 // by node
	origins []origin
	all     []decodedStack
	given   int
	time    uint64
	buffer  []uint64
}

type decodedStack struct {
	id    event.StackID
	leaf  uint32
	pid   uint32
	flags byte
}

// begin reads all but when they were taken.
func (x *stackDecoder) begin(cols *[columns]column) error {
	x.tree.reset()
	x.sums, x.origins, x.all = append(x.sums[:0], 0), x.origins[:0], x.all[:0]
	x.given, x.time = 0, 0
	for c := &cols[colOrigins]; !c.done(); {
		x.origins = append(x.origins, origin{c.uint32(), c.uint64()})
	}
	frames, frame := 0, uint64(0)
	for c, tree := &cols[colStacks], &cols[colStackTree]; !c.done(); {
		number, flags := c.uvarint(), c.byte()
		branch, more := tree.uvarint(), tree.count(maxDepth)
		if c.bad || tree.bad || number >= uint64(len(x.origins)) || !x.tree.begin(branch, more, maxDepth) {
			return errDamaged
		}
		for range more {
			frame += uint64(cols[colFrames].signed())
			x.sums = append(x.sums, frameSum(x.sums[x.tree.leaf], x.tree.depth(), frame))
			x.tree.grow(frame)
		}
		if frames += x.tree.depth(); frames > maxFrames || cols[colFrames].bad {
			return errDamaged
		}
		o := x.origins[number]
		x.all = append(x.all, decodedStack{idOf(o.seed, x.sums[x.tree.leaf]), x.tree.leaf, o.pid, flags})
	}
	if cols[colOrigins].bad {
		return errDamaged
	}
	return nil
}

// ref reads what appendRef has written.
func (x *stackDecoder) ref(c, raw *column, last *uint32) (event.StackID, bool) {
	v := c.uvarint()
	if v == 0 {
		return event.StackID(raw.uint64()), !c.bad && !raw.bad
	}
	k := int64(*last) + 1 + unzigzag(v-1)
	if k < 1 || k > int64(len(x.all)) {
		return 0, false
	}
	*last = uint32(k)
	return x.all[k-1].id, true
}

// next gives a stack. Its frames are lent until the next.
func (x *stackDecoder) next(cols *[columns]column, s *event.Stack) bool {
	c := &cols[colStackTimes]
	x.time += uint64(c.signed())
	if x.given == len(x.all) || c.bad {
		return false
	}
	d := &x.all[x.given]
	x.given++
	*s = event.Stack{
		ID: d.id, PID: d.pid, Time: x.time,
		Truncated: d.flags&stackTruncated != 0, Deeper: d.flags&stackDeeper != 0,
		FPGuess: d.flags&stackFPGuess != 0, Bottom: d.flags&stackBottom != 0,
	}
	if x.buffer == nil {
		x.buffer = []uint64{} // of a first stack without frames, too
	}
	x.buffer = x.buffer[:0]
	for at := d.leaf; at != 0; at = x.tree.nodes[at].parent {
		x.buffer = append(x.buffer, x.tree.nodes[at].frame)
	}
	s.Frames = x.buffer
	return true
}
