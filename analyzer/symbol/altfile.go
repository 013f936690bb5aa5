package symbol

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
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
	if end := bytes.IndexByte(data, 0); err == nil && end > 0 && end <= maxLink && len(data)-end-1 <= debugfile.MaxBuildID {
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
	name, sum, ok := bytes.Cut(data[3:min(len(data), 3+2*maxLink)], []byte{0})
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
// The error says that there ought to be one.
func (d debugFinder) findAlt(img *image, imgPath string, v view) (*image, error) {
	link, ok := img.alt()
	if !ok {
		return nil, nil
	}
	name := link.name
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(imgPath), name)
	}
	names := append(debugfile.BuildIDNames(d.dirs, link.id), name)
	belongs := func(found *image) bool { return found.file != img.file && found.isAlt(link) }
	found, err := v.first(names, img.file, belongs)
	if found == nil {
		found = d.remote.find(link.id, img.file.owner)
	}
	switch {
	case found != nil:
		return found, nil
	case err != nil:
		return nil, fmt.Errorf("%s: the file that dwz moved parts of its DWARF to was not read: %w; some functions will lack names", imgPath, err)
	}
	return nil, fmt.Errorf("%s: the file that dwz moved parts of its DWARF to was not found (install all of its debug package); some functions will lack names", imgPath)
}
