package probe

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"

	"github.com/memtrace/memtrace/tracer/unwind"
)

// extent is the code of the function that addr is in: all of s, where addr lies in it and its size is known; else the
// code that an entry of .eh_frame is about.
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
				f.spans = apart(im.ranges(data, section.Addr))
			}
		}
	}
	i := sort.Search(len(f.spans), func(i int) bool { return f.spans[i].lo > addr }) - 1
	if i < 0 || addr >= f.spans[i].hi {
		return span{}, false
	}
	return f.spans[i], true
}

// ranges are the spans of code that .eh_frame, which lies at an address, is about.
func (im *image) ranges(data []byte, at uint64) (spans []span) {
	hdr := uint64(0)
	if section := im.file.Section(".eh_frame_hdr"); section != nil {
		hdr = section.Addr
	}
	for _, r := range unwind.Ranges(im.file.Machine, data, at, hdr) {
		spans = append(spans, span{r.Start, r.End})
	}
	return spans
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
