package recording

import (
	"encoding/binary"
	"errors"
)

// A block's inputs lie in columns, each a sequence of bytes. Their order in the file is that of these numbers;
// later versions may add some at the end.
const (
	colScript     = iota // which input comes next: its tag, and of Events how many
	colOps               // a byte an event: an index into the operations, or one of those below
	colOpDict            // operations: kind, flags and interval
	colActors            // whose: 0 as the event before, else 1 + an index into the actors
	colActorDict         // actors: PID, TID, CPU
	colTimes             // 256 ns since the event before, a byte; timeLong: in colTimeLong
	colTimeLow           // and what is left of that, a byte, in ns
	colTimeLong          // ns since the event before
	colCalls             // of allocations: an index into the calls
	colCallIDs           // calls: how far back among the stacks' IDs theirs is, 0 is a new one
	colCallSizes         // and their sizes
	colIDs               // stacks' IDs, as references
	colRawIDs            // those of stacks that are not in this block
	colAddrs             // of allocations: a code
	colAddrRest          // what the code leaves open
	colFrees             // of frees: a code
	colFreeRest          // what the code leaves open
	colBegan             // of reallocations: ns before their end
	colPools             // of allocations from pools: the pool
	colFaults            // of faults: the address
	colRare              // whole events
	colOrigins           // what stacks' IDs come from: PID, 8 bytes
	colStacks            // of the block's stacks: an index into the origins, flags
	colStackTimes        // when they were taken
	colStackTree         // where they leave the tree, and how many frames they add
	colFrames            // these frames
	colNames             // names of stacks: PID, whether they are the last
	colNameIDs           // whose they are, as references
	colNameRaw           // IDs of stacks that are not in this block
	colNameStacks        // the analyzer's numbers
	colNameTree          // where they leave the tree, and how many frames they add
	colNameFrames        // numbers of these frames
	colFrameNames        // frames, once each: their length, CBOR
	colOther             // all other inputs: their length, CBOR
	columns
)

// errDamaged is the error of a block that says what can't be.
var errDamaged = errors.New("the block contradicts itself")

// leastPart is what columns have at least that are compressed by themselves, in bytes.
const leastPart = 1 << 10

// layOut puts the columns into one payload: how many there are, their lengths, and they. parts are the lengths of what
// is to be compressed together.
func layOut(to []byte, cols *[columns][]byte) (payload []byte, parts []int) {
	to = binary.AppendUvarint(to, columns)
	for i := range cols {
		to = binary.AppendUvarint(to, uint64(len(cols[i])))
	}
	done := 0
	end := func() {
		if len(to) > done {
			parts = append(parts, len(to)-done)
			done = len(to)
		}
	}
	for i := range cols {
		large := len(cols[i]) >= leastPart
		if large {
			end()
		}
		to = append(to, cols[i]...)
		if large {
			end()
		}
	}
	end()
	return to, parts
}

// takeApart finds the columns in a payload.
func takeApart(payload []byte, cols *[columns]column) error {
	c := column{b: payload}
	n := c.count(1 << 10)
	if c.bad || n < columns {
		return errDamaged
	}
	lengths := make([]uint64, n)
	for i := range lengths {
		lengths[i] = c.uvarint()
	}
	if c.bad {
		return errDamaged
	}
	rest := c.b[c.at:]
	for i, length := range lengths {
		if length > uint64(len(rest)) {
			return errDamaged
		}
		if i < columns {
			cols[i] = column{b: rest[:length:length]}
		}
		rest = rest[length:]
	}
	return nil
}

// A column is read from its beginning. Whatever is read beyond its end is 0, and bad says so.
type column struct {
	b   []byte
	at  int
	bad bool
}

func (c *column) byte() byte {
	if c.at >= len(c.b) {
		c.bad = true
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

func (c *column) uvarint() uint64 {
	if c.at < len(c.b) {
		if b := c.b[c.at]; b < 0x80 {
			c.at++
			return uint64(b)
		}
	}
	v, n := binary.Uvarint(c.b[min(c.at, len(c.b)):])
	if n <= 0 {
		c.bad, c.at = true, len(c.b)
		return 0
	}
	c.at += n
	return v
}

// uint32 reads a number that is to fit into 32 bits.
func (c *column) uint32() uint32 {
	v := c.uvarint()
	if v>>32 != 0 {
		c.bad = true
	}
	return uint32(v)
}

func (c *column) signed() int64 { return unzigzag(c.uvarint()) }

func (c *column) uint64() uint64 {
	if len(c.b)-c.at < 8 {
		c.bad, c.at = true, len(c.b)
		return 0
	}
	c.at += 8
	return binary.LittleEndian.Uint64(c.b[c.at-8:])
}

// count reads how many there are, of which there can't be more than most.
func (c *column) count(most int) int {
	v := c.uvarint()
	if v > uint64(most) {
		c.bad = true
		return 0
	}
	return int(v)
}

// bytes reads a length and so many bytes.
func (c *column) bytes() []byte {
	n := c.count(len(c.b) - c.at)
	n = min(n, len(c.b)-c.at)
	c.at += n
	return c.b[c.at-n : c.at]
}

func (c *column) done() bool { return c.at >= len(c.b) }

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// appendUvarint is binary.AppendUvarint for what mostly takes a byte or two.
func appendUvarint(to []byte, v uint64) []byte {
	if v < 0x80 {
		return append(to, byte(v))
	}
	if v < 0x4000 {
		return append(to, byte(v)|0x80, byte(v>>7))
	}
	return binary.AppendUvarint(to, v)
}

func appendSigned(to []byte, v int64) []byte { return appendUvarint(to, zigzag(v)) }
