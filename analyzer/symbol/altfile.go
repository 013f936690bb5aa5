package symbol

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"path"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// altLink is what a file says of the one that dwz moved common parts of it to.
type altLink struct {
	name string
	id   string // build ID, or in DWARF 5 the checksum; in hexadecimal
}

// alt reads .gnu_debugaltlink, else DWARF 5's .debug_sup of a file that has
// a supplementary file (section 7.3.6).
func (img *image) alt() (altLink, bool) {
	data, err := img.section(".gnu_debugaltlink")
	if end := bytes.IndexByte(data, 0); err == nil && end > 0 && len(data)-end-1 <= debugfile.MaxBuildID {
		return altLink{string(data[:end]), hex.EncodeToString(data[end+1:])}, true
	}
	link, supplementary, ok := img.sup()
	return link, ok && !supplementary
}

// sup reads .debug_sup.
func (img *image) sup() (link altLink, supplementary, ok bool) {
	data, err := img.section(".debug_sup")
	if err != nil || len(data) < 4 || binary.LittleEndian.Uint16(data) != 5 {
		return link, false, false
	}
	supplementary = data[2] != 0
	name, sum, ok := bytes.Cut(data[3:], []byte{0})
	size, n := binary.Uvarint(sum)
	if !ok || n <= 0 || size > debugfile.MaxBuildID || size > uint64(len(sum)-n) {
		return link, false, false
	}
	return altLink{string(name), hex.EncodeToString(sum[n:][:size])}, supplementary, true
}

// isAlt tells whether img is the file that link means.
func (img *image) isAlt(link altLink) bool {
	if img.buildID != "" && img.buildID == link.id {
		return true
	}
	own, supplementary, ok := img.sup()
	return ok && supplementary && own.id == link.id && own.id != ""
}

// findAlt finds the file that img, which lies at imgPath, shares parts with.
// named tells whether there ought to be one.
func (d debugFinder) findAlt(img *image, imgPath string, root int) (alt *image, named bool) {
	link, ok := img.alt()
	if !ok {
		return nil, false
	}
	belongs := func(found *image) bool { return found.file != img.file && found.isAlt(link) }
	for _, name := range debugfile.BuildIDNames(d.dirs, link.id) {
		if found := openDebug(name, root, belongs); found != nil {
			return found, true
		}
	}
	name := link.name
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(imgPath), name)
	}
	if found := openDebug(name, root, belongs); found != nil {
		return found, true
	}
	return d.remote.find(link.id), true
}
