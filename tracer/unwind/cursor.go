package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errShort: an entry goes on beyond its end.
var errShort = errors.New("call frame information is cut short")

// cursor reads numbers from a part of a section. The first read beyond the
// end sets err, and all reads return 0 from then on.
type cursor struct {
	data []byte
	at   int
	err  error
}

func (c *cursor) done() bool { return c.err != nil || c.at >= len(c.data) }

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *cursor) take(n int) []byte {
	if c.err != nil || n < 0 || n > len(c.data)-c.at {
		c.fail(errShort)
		return nil
	}
	b := c.data[c.at : c.at+n]
	c.at += n
	return b
}

func (c *cursor) u8() uint64 {
	if b := c.take(1); b != nil {
		return uint64(b[0])
	}
	return 0
}

func (c *cursor) u16() uint64 {
	if b := c.take(2); b != nil {
		return uint64(binary.LittleEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) u32() uint64 {
	if b := c.take(4); b != nil {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// maxLEB bounds the bytes of a LEB128 number: one of 64 bits has 10, and writers may pad it.
const maxLEB = 16

// errLong: a number goes on and on.
var errLong = fmt.Errorf("a number of more than %d bytes", maxLEB)

// uleb reads an unsigned LEB128 number; bits beyond 64 are lost.
func (c *cursor) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		if shift == 7*maxLEB {
			c.fail(errLong)
			return 0
		}
		b := c.u8()
		if shift < 64 {
			v |= (b & 0x7f) << shift
		}
		if b&0x80 == 0 {
			return v
		}
	}
}

func (c *cursor) sleb() int64 {
	var v uint64
	for shift := uint(0); ; {
		if shift == 7*maxLEB {
			c.fail(errLong)
			return 0
		}
		b := c.u8()
		if shift < 64 {
			v |= (b & 0x7f) << shift
		}
		shift += 7
		if b&0x80 == 0 {
			if shift < 64 && b&0x40 != 0 {
				v |= ^uint64(0) << shift
			}
			return int64(v)
		}
	}
}

// text reads a string that ends in a zero byte.
func (c *cursor) text() string {
	for i := c.at; i < len(c.data) && c.err == nil; i++ {
		if c.data[i] == 0 {
			s := string(c.data[c.at:i])
			c.at = i + 1
			return s
		}
	}
	c.fail(errShort)
	return ""
}

// Pointer encodings, DW_EH_PE_*.
const (
	peAbs     = 0x00
	peULEB    = 0x01
	peU2      = 0x02
	peU4      = 0x03
	peU8      = 0x04
	peSLEB    = 0x09
	peS2      = 0x0a
	peS4      = 0x0b
	peS8      = 0x0c
	pePCRel   = 0x10
	peDataRel = 0x30
	peIndir   = 0x80
	peOmit    = 0xff
)

// pointer reads a number in the given encoding. Base is the address of the
// section's first byte, hdr that of .eh_frame_hdr.
func (c *cursor) pointer(encoding byte, base, hdr uint64) uint64 {
	at := base + uint64(c.at)
	var v uint64
	switch encoding & 0x0f {
	case peAbs, peU8, peS8:
		v = c.u64()
	case peULEB:
		v = c.uleb()
	case peSLEB:
		v = uint64(c.sleb())
	case peU2:
		v = c.u16()
	case peS2:
		v = uint64(int64(int16(c.u16())))
	case peU4:
		v = c.u32()
	case peS4:
		v = uint64(int64(int32(c.u32())))
	default:
		c.fail(fmt.Errorf("unknown pointer encoding %#x", encoding))
	}
	switch encoding & 0x70 {
	case 0:
	case pePCRel:
		v += at
	case peDataRel:
		v += hdr
	default:
		c.fail(fmt.Errorf("unknown pointer encoding %#x", encoding))
	}
	return v
}
