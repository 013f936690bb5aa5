package unwind

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Tables can be kept on disk. A file of them is
//
//	magic, the key of what they were made from, CRC-32C of the rest,
//	bytes of call frame information, entries and rows that were left out, segments;
//	for each segment: offset, size, address, text, number of rules and words,
//	the rules, the words as Table.words
//
// in little-endian numbers. It is read as untrusted.
const (
	packedMagic = "memtrace unwind tables 4\n\x00\x00\x00"
	packedHead  = len(packedMagic) + sha256.Size + 4
	packedRule  = 8 + 2*SavedRegisters
	// MaxPacked bounds a file of tables, in bytes.
	MaxPacked   = 64 << 20
	maxSegments = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Key is a hash of all that the tables are made from: files of equal keys have
// equal tables, whatever they say of themselves.
func (s *Source) Key() [sha256.Size]byte {
	h := sha256.New()
	number := func(n ...uint64) {
		for _, n := range n {
			_ = binary.Write(h, binary.LittleEndian, n) // a hash takes everything
		}
	}
	number(s.machine.ra, s.restorer, uint64(len(s.segments)))
	fmt.Fprint(h, s.start)
	if len(s.switches) > 0 {
		fmt.Fprint(h, s.switches)
	}
	for _, segment := range s.segments {
		number(segment.Offset, segment.Size, segment.Address)
	}
	for _, section := range s.sections {
		kind := uint64(0)
		if section.debug {
			kind = 1
		}
		number(kind, section.address, section.hdr, uint64(len(section.data)))
		h.Write(section.data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Pack lays the tables out for disk, with the key of their Source.
func (f *File) Pack(key [sha256.Size]byte) []byte {
	le := binary.LittleEndian
	out := make([]byte, packedHead, packedHead+f.Source)
	copy(out, packedMagic)
	copy(out[len(packedMagic):], key[:])
	out = le.AppendUint32(le.AppendUint32(out, uint32(f.Source)), uint32(f.Bad))
	out = le.AppendUint32(le.AppendUint32(out, uint32(f.Lost)), uint32(len(f.Segments)))
	for i := range f.Segments {
		out = f.Segments[i].pack(out)
	}
	le.PutUint32(out[packedHead-4:], crc32.Checksum(out[packedHead:], castagnoli))
	return out
}

func (s *Segment) pack(out []byte) []byte {
	le := binary.LittleEndian
	t := s.Table
	if t == nil {
		t = &Table{}
	} else {
		t.pack()
	}
	for _, n := range []uint64{s.Offset, s.Size, s.Address, t.Text.Start, t.Text.End} {
		out = le.AppendUint64(out, n)
	}
	out = le.AppendUint32(le.AppendUint32(out, uint32(len(t.rules))), uint32(len(t.words)))
	for _, r := range t.rules {
		out = append(out, byte(r.Kind), r.Reg, r.FromFP, r.Param)
		out = le.AppendUint32(out, uint32(r.CFA))
		for _, at := range r.Saved {
			out = le.AppendUint16(out, uint16(at))
		}
	}
	for _, w := range t.words {
		out = le.AppendUint32(out, w)
	}
	return out
}

var errPacked = errors.New("the file of unwinding tables is damaged")

// Unpack reads what Pack wrote with the same key.
func Unpack(data []byte, key [sha256.Size]byte) (*File, error) {
	if len(data) < packedHead+16 || string(data[:len(packedMagic)]) != packedMagic ||
		!bytes.Equal(data[len(packedMagic):packedHead-4], key[:]) {
		return nil, errPacked
	}
	body := data[packedHead:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[packedHead-4:]) {
		return nil, errPacked
	}
	c := cursor{data: body}
	out := &File{Source: int(c.u32()), Bad: int(c.u32()), Lost: int(c.u32())}
	n := c.u32()
	if n > maxSegments {
		return nil, errPacked
	}
	for range n {
		s, err := unpackSegment(&c)
		if err != nil {
			return nil, err
		}
		out.Segments = append(out.Segments, s)
	}
	if c.err != nil || c.at != len(body) {
		return nil, errPacked
	}
	return out, nil
}

func unpackSegment(c *cursor) (Segment, error) {
	s := Segment{Offset: c.u64(), Size: c.u64(), Address: c.u64()}
	t := &Table{Text: Range{c.u64(), c.u64()}}
	rules, words := c.u32(), c.u32()
	raw := cursor{data: c.take(int(rules) * packedRule)}
	if c.err != nil {
		return s, errPacked
	}
	t.rules = make([]Rule, rules)
	for i := range t.rules {
		t.rules[i] = unpackRule(&raw)
	}
	data := c.take(int(words) * 4)
	if c.err != nil {
		return s, errPacked
	}
	if words == 0 {
		return s, nil
	}
	t.words = make([]uint32, words)
	for i := range t.words {
		t.words[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	s.Table = t
	return s, t.check()
}

func unpackRule(c *cursor) Rule {
	r := Rule{Kind: Kind(c.u8()), Reg: uint8(c.u8()), FromFP: uint8(c.u8()), Param: uint8(c.u8()), CFA: int32(c.u32())}
	for i := range r.Saved {
		r.Saved[i] = int16(c.u16())
	}
	return r
}

// check sees to it that what is in the words lies within them.
func (t *Table) check() error {
	w := t.words
	if len(w) < wordHead {
		return errPacked
	}
	n := uint64(len(w))
	dict, index, first, pages := uint64(w[wordDict]), uint64(w[wordIndex]), uint64(w[wordRows]), uint64(w[wordPages])
	rares, count := uint64(w[wordRare]), uint64(w[wordRares])
	if dict != wordHead || dict > index || index-dict > rare || index+pages+1 != first || first > rares || rares+2*count != n {
		return errPacked
	}
	if span := t.Text.End - t.Text.Start; t.Text.End <= t.Text.Start || span > maxText+step || (span+step-1)/step != pages {
		return errPacked
	}
	steps := w[index:first]
	if !slices.IsSorted(steps) || (uint64(steps[pages])+1)/2 != rares-first {
		return errPacked
	}
	for _, rule := range w[dict:index] {
		if int64(rule) >= int64(len(t.rules)) {
			return errPacked
		}
	}
	return t.checkRows(steps[pages], index-dict)
}

// checkRows looks at the rules of all rows.
func (t *Table) checkRows(rows uint32, dict uint64) error {
	w := t.words
	for i := range rows {
		code := uint64(w[w[wordRows]+i/2]>>(i%2*16)) >> 8 & 0xff
		if code >= dict && code != rare {
			return errPacked
		}
	}
	for i := range w[wordRares] {
		if at := w[wordRare] + 2*i; w[at] >= rows || int64(w[at+1]) >= int64(len(t.rules)) {
			return errPacked
		}
	}
	for _, r := range t.rules {
		if r.Kind > Switch || r.Reg >= SavedRegisters {
			return fmt.Errorf("%w: a rule of kind %d", errPacked, r.Kind)
		}
	}
	return nil
}
