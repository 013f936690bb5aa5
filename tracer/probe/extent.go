package probe

import (
	"debug/elf"
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
	im.frames = &frames{data[12:], section.Addr}
	return im.frames.table, im.frames.base
}

// frames is what frameTable has read.
type frames struct {
	table []byte
	base  uint64
}

// described finds the code that the entry of .eh_frame for addr is about.
func (im *image) described(addr uint64) (span, bool) {
	table, base := im.frameTable()
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
