package symbol

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// What a file may cost. Files are the target's: whoever can run a program can make one whose few kilobytes
// ask for any amount of memory or time. What these leave out has a warning with the file's name.
const (
	// smallFile is the size up to which a file costs at most some 256 MiB of memory and 5 s. Larger ones may
	// cost more, by the byte.
	smallFile = 64 << 20
	// maxUnpacked is what the compressed sections of a small file may come to; DWARF is some 3 times as large as
	// when compressed. Each byte beyond that of a larger file may come to unpackedRatio.
	maxUnpacked   = 192 << 20
	unpackedRatio = 8
	// maxUnpacks is how often that much is decompressed, where files are closed and opened again for room.
	maxUnpacks = 8
	// maxWork is the work that looking into a small file's DWARF may cost, in units of some 20 ns; each byte
	// beyond that of larger ones may cost workRatio. freeWork of each lookup does not count.
	maxWork   = 128 << 20
	workRatio = 16
	freeWork  = 1 << 12
	// maxHeld is the memory of all files' headers, symbols and DWARF beyond which the ones unused for longest are
	// closed.
	maxHeld = 512 << 20
	// maxSymtabs bounds the symbol tables read of a file, in bytes; Chromium's have some 80 MB.
	maxSymtabs = 256 << 20
	// maxNotes bounds the notes searched for a build ID, in bytes.
	maxNotes = 4 << 20
	// maxChecked is the largest debug file of which a checksum is made.
	maxChecked = 4 << 30
	// maxLink bounds the name of another file.
	maxLink = 4096
)

// unpackLimit is what the compressed sections of a file of the given size may come to, in bytes.
func unpackLimit(size int) int64 {
	return min(maxDecompressed, maxUnpacked+unpackedRatio*int64(max(0, size-smallFile)))
}

// workLimit is the work that the DWARF in files of the given size may cost.
func workLimit(size int64) int64 { return maxWork + workRatio*max(0, size-smallFile) }

// Limits on the files that are mapped at once, in bytes of address space, of which there are 128 TiB.
const (
	maxMapped      = 16 << 40
	maxMappedOwner = 1 << 40 // those of one user other than root
)

var errAddressSpace = errors.New("it and the other mapped files of its owner come to more than memtrace maps")

// addressSpace counts what is mapped, by owner. It is not locked.
type addressSpace struct {
	total  int64
	owners map[uint32]int64
}

// take counts a file's size; the error says that there is no room.
func (a *addressSpace) take(owner uint32, size int64) error {
	if size < 0 || size > maxFileSize {
		return fmt.Errorf("its size of %d bytes is out of bounds", size)
	}
	if size > maxMapped-a.total || owner != 0 && size > maxMappedOwner-a.owners[owner] {
		return errAddressSpace
	}
	if a.owners == nil {
		a.owners = map[uint32]int64{}
	}
	a.total += size
	a.owners[owner] += size
	return nil
}

// give takes back what take counted.
func (a *addressSpace) give(owner uint32, size int64) {
	a.total -= size
	if a.owners[owner] -= size; a.owners[owner] <= 0 {
		delete(a.owners, owner)
	}
}

// checksum is the CRC-32 of the file; ok is false where that would take too long.
func (f *mappedFile) checksum() (sum uint32, ok bool) {
	if len(f.data) > maxChecked {
		return 0, false
	}
	f.inPieces(f.data, func(piece []byte) { sum = crc32.Update(sum, crc32.IEEETable, piece) })
	return sum, true
}

// inPieces visits data of the file from its beginning to its end, giving back pages on the way. The pieces
// are multiples of what symbols take.
func (f *mappedFile) inPieces(data []byte, visit func([]byte)) {
	const piece = maxRead / symbolSize * symbolSize
	for len(data) > 0 {
		n := min(piece, len(data))
		visit(data[:n])
		data = data[n:]
		if len(data) > 0 {
			f.dropPages()
		}
	}
}

// cost is the memory that an image holds, in bytes.
func (img *image) cost() int64 {
	if img == nil {
		return 0
	}
	const section, segment = 360, 200 // with what debug/elf reads them by
	n := int64(len(img.elf.Sections)*section+len(img.elf.Progs)*segment) + img.unpackedBytes
	if img.file.owned {
		n += int64(len(img.file.data))
	}
	return n
}

// cost is the memory that the symbols of a file take, in bytes.
func (t *symtab) cost() int64 { return int64(cap(t.symbols)) * symbolSize }

// cost is the memory that the DWARF of a file takes, beyond what its image and its debug file hold as they
// are opened, in bytes.
func (d *dwarfReader) cost() int64 {
	if d.source == nil {
		return 0
	}
	n := d.source.unpackedBytes + d.alt.cost() + int64(d.data.Held())
	if d.split != nil {
		for _, img := range d.split.images {
			n += img.cost()
		}
	}
	return n
}
