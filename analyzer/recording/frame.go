package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A file begins with the magic bytes and its version, and then has blocks.
const (
	magic      = "\x89MEMTRC\n"
	major      = 2
	minor      = 0
	prefixSize = 16
	headSize   = 64
	sync       = 0x4b4c424d // "MBLK"
)

// A kind is what a block holds. Readers pass over kinds that they don't know.
type kind uint8

const (
	kindHeader     kind = 1 + iota // a Header as JSON; the first block
	kindInputs                     // inputs in their order
	kindShown                      // what Reports have beside the analyzer's, as CBOR
	kindReport                     // the last Report, as JSON
	kindLeftOut                    // blocks that were not written
	kindEnd                        // the end of a recording that was closed
	kindState                      // a part of a checkpoint: inputs that say what lived. Its number is 0
	kindCheckpoint                 // a checkpoint is complete, as JSON. Its number is 0
)

// Flags of a block.
const flagNames = 1 // there are Names among its inputs

// Bounds of what a block may claim: beyond, it is damaged or hostile.
const (
	maxStored = 64 << 20 // bytes, as it is in the file
	maxRaw    = 64 << 20 // bytes, once it is decompressed
)

// A head describes a block. It has a checksum of its own, so that a block whose payload is damaged still says
// what is missing.
type head struct {
	kind        kind
	compression Compression
	flags       uint16
	stored, raw uint32 // bytes of the payload
	number      uint64 // of the block; those that were not written count
	first, last uint64 // ns, CLOCK_MONOTONIC: the times that its inputs have
	inputs      uint32
	events      uint32
	stacks      uint32
	crc         uint32 // CRC-32C of the payload as it is stored
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (h *head) append(to []byte) []byte {
	le := binary.LittleEndian
	from := len(to)
	to = le.AppendUint32(to, sync)
	to = append(to, byte(h.kind), byte(h.compression))
	to = le.AppendUint16(to, h.flags)
	to = le.AppendUint32(to, h.stored)
	to = le.AppendUint32(to, h.raw)
	to = le.AppendUint64(to, h.number)
	to = le.AppendUint64(to, h.first)
	to = le.AppendUint64(to, h.last)
	to = le.AppendUint32(to, h.inputs)
	to = le.AppendUint32(to, h.events)
	to = le.AppendUint32(to, h.stacks)
	to = le.AppendUint32(to, h.crc)
	to = le.AppendUint32(to, 0) // reserved
	return le.AppendUint32(to, crc32.Checksum(to[from:], castagnoli))
}

// parseHead reads a head; ok is false for bytes that are none.
func parseHead(b []byte) (h head, ok bool) {
	le := binary.LittleEndian
	if len(b) < headSize || le.Uint32(b) != sync || crc32.Checksum(b[:headSize-4], castagnoli) != le.Uint32(b[headSize-4:]) {
		return h, false
	}
	h = head{
		kind: kind(b[4]), compression: Compression(b[5]), flags: le.Uint16(b[6:]),
		stored: le.Uint32(b[8:]), raw: le.Uint32(b[12:]), number: le.Uint64(b[16:]),
		first: le.Uint64(b[24:]), last: le.Uint64(b[32:]),
		inputs: le.Uint32(b[40:]), events: le.Uint32(b[44:]), stacks: le.Uint32(b[48:]), crc: le.Uint32(b[52:]),
	}
	return h, h.stored <= maxStored && h.raw <= maxRaw
}

// Errors of files that can't be read.
var (
	ErrNotRecording = errors.New("not a recording of memtrace")
	ErrNewer        = errors.New("the recording is of a newer version")
	ErrOlder        = errors.New("the recording is of an older version")
	ErrNoHeader     = errors.New("the recording's header is damaged")
)

func appendPrefix(to []byte) []byte {
	to = append(to, magic...)
	to = binary.LittleEndian.AppendUint16(to, major)
	to = binary.LittleEndian.AppendUint16(to, minor)
	return append(to, 0, 0, 0, 0)
}

func checkPrefix(b []byte) error {
	if !Is(b) {
		return ErrNotRecording
	}
	if len(b) < prefixSize {
		return fmt.Errorf("%w: the file ends in its first bytes", ErrNoHeader)
	}
	switch v := binary.LittleEndian.Uint16(b[len(magic):]); {
	case v > major:
		return fmt.Errorf("%w: format %d, and this memtrace reads %d", ErrNewer, v, major)
	case v < major:
		return fmt.Errorf("%w: format %d, and this memtrace reads %d. Record anew, or read it with the memtrace that wrote it", ErrOlder, v, major)
	}
	return nil
}

// checksum is that of payloads.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Is reports whether a file that begins like this is a recording. Eight bytes suffice.
func Is(begin []byte) bool { return len(begin) >= len(magic) && string(begin[:len(magic)]) == magic }
