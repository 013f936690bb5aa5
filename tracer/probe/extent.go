package probe

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"sort"
)

// extent is the code of the function around addr: that of s where it is that one's entry and its size is known, else what
// one entry of .eh_frame describes.
func (im *image) extent(addr uint64, s symbol) (span, bool) {
	if s.size > 0 && addr >= s.addr && addr-s.addr < s.size {
		return span{s.addr, s.addr + s.size}, true
	}
	return im.described(addr)
}

const (
	pcrel4, udata4, datarel4 = 0x1b, 0x03, 0x3b // DW_EH_PE encodings, those that linkers write
	frameEntry               = 8                // of the table: where a function begins, and its description
	maxFrames                = 32 << 20         // of .eh_frame, where all of it has to be read
)

// frameTable is the sorted table of .eh_frame_hdr, and the address that it counts from; nil where there is none, or none that is
// written as linkers do (Linux Standard Base, "Exception Frames").
func (im *image) frameTable() ([]byte, uint64) {
	if im.frames != nil {
		return im.frames.table, im.frames.base
	}
	im.frames = &frames{}
	section := im.file.Section(".eh_frame_hdr")
	if section == nil {
		return nil, 0
	}
	data, err := im.table(section, maxTable)
	if err != nil || len(data) < 12 || data[0] != 1 || data[1] != pcrel4 || data[2] != udata4 || data[3] != datarel4 {
		return nil, 0
	}
	im.frames = &frames{table: data[12:], base: section.Addr}
	return im.frames.table, im.frames.base
}

// frames is what frameTable and listed have read.
type frames struct {
	table []byte
	base  uint64

	walked bool
	spans  []span // sorted, none overlaps another
}

// described finds the code that the entry of .eh_frame for addr is about.
func (im *image) described(addr uint64) (span, bool) {
	table, base := im.frameTable()
	if table == nil {
		return im.listed(addr)
	}
	word := func(i, at int) uint64 {
		return base + uint64(int64(int32(im.order.Uint32(table[i*frameEntry+at:]))))
	}
	i := sort.Search(len(table)/frameEntry, func(i int) bool { return word(i, 0) > addr }) - 1
	if i < 0 {
		return span{}, false
	}
	begin, entry := word(i, 0), word(i, 4)
	section := im.file.Section(".eh_frame")
	if section == nil || section.Type == elf.SHT_NOBITS || entry < section.Addr || entry-section.Addr >= section.FileSize {
		return span{}, false
	}
	var raw [16]byte // length, distance of the common part, begin, size
	if _, err := im.r.ReadAt(raw[:], int64(section.Offset+entry-section.Addr)); err != nil {
		return span{}, false
	}
	// That its beginning is what the table says shows that it is written in the usual way, too.
	relative := entry + 8 + uint64(int64(int32(im.order.Uint32(raw[8:]))))
	end := begin + uint64(im.order.Uint32(raw[12:]))
	return span{begin, end}, relative == begin && addr < end
}

// listed does the same without the table: GCC has none written for static programs.
func (im *image) listed(addr uint64) (span, bool) {
	f := im.frames
	if !f.walked {
		f.walked = true
		if section := im.file.Section(".eh_frame"); section != nil {
			if data, err := im.table(section, maxFrames); err == nil {
				f.spans = apart(entriesOf(data, section.Addr, im.order))
			}
		}
	}
	i := sort.Search(len(f.spans), func(i int) bool { return f.spans[i].lo > addr }) - 1
	if i < 0 || addr >= f.spans[i].hi {
		return span{}, false
	}
	return f.spans[i], true
}

// entriesOf walks .eh_frame, which lies at base, and lists the code that its entries are about: those written in the usual way.
// Where one can't be stepped over, what follows can't be trusted, nor what led there: none.
func entriesOf(data []byte, base uint64, order binary.ByteOrder) (out []span) {
	for at := 0; len(data)-at >= 4; {
		length := order.Uint32(data[at:])
		if length == 0 { // the end
			break
		}
		if length < 4 || uint64(length) > uint64(len(data)-at-4) {
			return nil
		}
		back, next := order.Uint32(data[at+4:]), at+4+int(length)
		common := int64(at) + 4 - int64(back)
		if back != 0 && length >= 12 && common >= 0 && usualFrame(data[common:], order) {
			lo := base + uint64(at) + 8 + uint64(int64(int32(order.Uint32(data[at+8:]))))
			if hi := lo + uint64(order.Uint32(data[at+12:])); lo < hi {
				out = append(out, span{lo, hi})
			}
		}
		at = next
	}
	return out
}

// usualFrame says whether the entries with this common part give addresses as a distance of 32 bits from where it stands.
func usualFrame(b []byte, order binary.ByteOrder) bool {
	const fixed = 9     // length, 0, version
	const maxUsual = 64 // enough up to the encodings
	if len(b) < fixed || order.Uint32(b[4:]) != 0 || b[8] != 1 && b[8] != 3 {
		return false
	}
	b = b[fixed:max(fixed, min(uint64(len(b)), uint64(order.Uint32(b))+4, maxUsual))]
	letters, b, ok := bytes.Cut(b, []byte{0})
	if !ok || !bytes.HasPrefix(letters, []byte("z")) {
		return false
	}
	for range 4 { // LEB128: units of code and data, the return address's register, the length of what follows
		end := slices.IndexFunc(b, func(c byte) bool { return c < 0x80 })
		if end < 0 {
			return false
		}
		b = b[end+1:]
	}
	for _, letter := range letters[1:] {
		size := 0
		switch letter {
		case 'R':
			return len(b) > 0 && b[0] == pcrel4
		case 'L':
			size = 1
		case 'P':
			if size = personalitySize(b); size == 0 {
				return false
			}
		case 'S', 'B', 'G': // of signal handlers, of signed return addresses, of tagged memory
		default:
			return false
		}
		if len(b) < size {
			return false
		}
		b = b[size:]
	}
	return false
}

// personalitySize is how long an encoding and the address after it are; 0 where that isn't known.
func personalitySize(b []byte) int {
	const aligned = 0x50
	if len(b) == 0 || b[0]&0x70 == aligned {
		return 0
	}
	switch b[0] & 0x0f {
	case 0x00, 0x04, 0x0c:
		return 1 + 8
	case 0x03, 0x0b:
		return 1 + 4
	case 0x02, 0x0a:
		return 1 + 2
	}
	return 0
}

// apart sorts spans and drops those that overlap others, of which nobody knows which holds.
func apart(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi)) })
	spans = slices.Compact(spans)
	out := spans[:0]
	for i := 0; i < len(spans); {
		first, hi, n := spans[i], spans[i].hi, i+1
		for ; n < len(spans) && spans[n].lo < hi; n++ {
			hi = max(hi, spans[n].hi)
		}
		if n == i+1 {
			out = append(out, first)
		}
		i = n
	}
	return out
}
