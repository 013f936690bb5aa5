package dwarf

import (
	"bytes"
	"encoding/binary"
)

// maxString is the longest string taken out of a section.
const maxString = 1 << 16

// maxLEB is the longest LEB128 taken, in bytes. 64 bits take 10; some writers pad them.
const maxLEB = 64

// stringWork is how many bytes are searched for the end of a string in the time of a unit of work.
const stringWork = 64

// cursor reads a little-endian section. Reading beyond the end gives zeros,
// sets bad and stays at the end.
type cursor struct {
	data []byte
	pos  uint64
	bad  bool
	work *budget // of which long strings and attributes are paid, or nil
}

// at returns a cursor on data at off, which may be out of bounds.
func at(data []byte, off uint64) cursor {
	c := cursor{data: data, pos: off}
	if off > uint64(len(data)) {
		c.fail()
	}
	return c
}

func (c *cursor) fail() {
	c.bad = true
	c.pos = uint64(len(c.data))
}

// done tells whether nothing is left to read.
func (c *cursor) done() bool { return c.pos >= uint64(len(c.data)) }

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.data))-c.pos {
		c.fail()
		return
	}
	c.pos += n
}

func (c *cursor) u8() uint8 {
	if c.done() {
		c.fail()
		return 0
	}
	v := c.data[c.pos]
	c.pos++
	return v
}

func (c *cursor) u16() uint16 {
	start := c.pos
	if c.skip(2); c.bad {
		return 0
	}
	return binary.LittleEndian.Uint16(c.data[start:])
}

func (c *cursor) u32() uint32 {
	start := c.pos
	if c.skip(4); c.bad {
		return 0
	}
	return binary.LittleEndian.Uint32(c.data[start:])
}

func (c *cursor) u64() uint64 {
	start := c.pos
	if c.skip(8); c.bad {
		return 0
	}
	return binary.LittleEndian.Uint64(c.data[start:])
}

// uint reads an integer of 1, 2, 3, 4 or 8 bytes.
func (c *cursor) uint(size uint8) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 3:
		return uint64(c.u16()) | uint64(c.u8())<<16
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.fail()
	return 0
}

// offset reads an offset of 32-bit or 64-bit DWARF.
func (c *cursor) offset(dwarf64 bool) uint64 {
	if dwarf64 {
		return c.u64()
	}
	return uint64(c.u32())
}

// uleb reads an unsigned LEB128; bits beyond 64 are lost.
func (c *cursor) uleb() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			return v
		}
		if shift == 7*maxLEB {
			c.fail()
			return 0
		}
	}
}

// sleb reads a signed LEB128.
func (c *cursor) sleb() int64 {
	var v uint64
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= ^uint64(0) << (shift + 7)
			}
			return int64(v)
		}
		if shift == 7*maxLEB {
			c.fail()
			return 0
		}
	}
}

// cstring reads a string that a zero ends, without copying it.
func (c *cursor) cstring() []byte {
	rest := c.data[c.pos:]
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		end = len(rest)
	}
	if c.work != nil && !c.work.spend(end/stringWork) || end == len(rest) {
		c.fail()
		return nil
	}
	c.pos += uint64(end) + 1
	return rest[:min(end, maxString)]
}

// length reads the initial length of a unit and returns it with the format.
func (c *cursor) length() (n uint64, dwarf64 bool) {
	n = uint64(c.u32())
	if n == 0xffffffff {
		return c.u64(), true
	}
	if n >= 0xfffffff0 { // reserved
		c.fail()
	}
	return n, false
}
