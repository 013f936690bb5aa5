package probe

import (
	"bytes"
	"debug/elf"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// locator says where the separate debug file of a mapped file is looked for: in
// memtrace's own root alone, and of nobody but root and the file's owner. What
// another root has, any user may have put there, and all processes that map the file
// would have probes where it says. The zero locator has none.
type locator struct {
	dirs []string // such as /usr/lib/debug
	path string   // of the mapped file, as its process sees it
}

// separate opens the debug file that belongs to im; nil where there is none.
// A file that only looks like it would have probes put in the midst of
// instructions: it must have the same build ID or, where there is none, the
// checksum that im asks for.
func (im *image) separate(at locator) (*image, *os.File) {
	if id := im.buildID(); id != "" {
		for _, name := range debugfile.BuildIDNames(at.dirs, id) {
			if found, f := im.openSeparate(name, func(debug *image) bool { return debug.buildID() == id }); found != nil {
				return found, f
			}
		}
	}
	section := im.file.Section(".gnu_debuglink")
	if section == nil || at.path == "" {
		return nil, nil
	}
	data, err := im.table(section, maxNote)
	if err != nil {
		return nil, nil
	}
	link, crc, ok := debugfile.ParseLink(data, im.order)
	if !ok {
		return nil, nil
	}
	st, ok := im.stat()
	beside := ok && debugfile.LeadsTo(at.path, uint64(st.Dev), st.Ino)
	for _, name := range debugfile.LinkNames(at.dirs, at.path, link, beside) {
		if found, f := im.openSeparate(name, func(debug *image) bool { return im.linksTo(debug, crc) }); found != nil {
			return found, f
		}
	}
	return nil, nil
}

// linksTo says whether debug is the file that im's .gnu_debuglink means.
func (im *image) linksTo(debug *image, crc uint32) bool {
	if id, own := debug.buildID(), im.buildID(); id != "" && own != "" {
		return id == own
	}
	sum := crc32.NewIEEE()
	_, err := io.Copy(sum, io.NewSectionReader(debug.r, 0, maxDebugFile))
	return err == nil && sum.Sum32() == crc
}

// maxDebugFile is the largest debug file of which a checksum is made.
const maxDebugFile = 4 << 30

// openSeparate opens the file called name if it belongs to im, and nobody else can have
// written it than may have written im.
func (im *image) openSeparate(name string, belongs func(*image) bool) (*image, *os.File) {
	var owners []uint32
	if st, ok := im.stat(); ok {
		owners = append(owners, st.Uid)
	}
	fd, _, err := debugfile.OpenTrusted(name, owners...)
	if err != nil {
		if debugfile.Refused(err) {
			im.leave(fmt.Sprintf("its debug file %s is not used: %v", name, err))
		}
		return nil, nil
	}
	return openDebug(fd, name, im, belongs)
}

// leave notes what of a file is not known, and why.
func (im *image) leave(text string) {
	const most = 8
	if len(im.left) < most && !slices.Contains(im.left, text) {
		im.left = append(im.left, text)
	}
}

// stat is that of the file that im was read from, where it is one.
func (im *image) stat() (st unix.Stat_t, ok bool) {
	f, ok := im.r.(*os.File)
	return st, ok && unix.Fstat(int(f.Fd()), &st) == nil
}

func openDebug(fd int, name string, im *image, belongs func(*image) bool) (*image, *os.File) {
	f, err := debugfile.Readable(fd, name)
	if err != nil {
		im.leave(fmt.Sprintf("its debug file is not used: %v", err))
		return nil, nil
	}
	found, err := openImage(f)
	if err != nil || found.file.Machine != im.file.Machine || sameAs(f, im.r) || !belongs(found) {
		f.Close()
		return nil, nil
	}
	found.asked = im.asked
	return found, f
}

// sameAs says whether both are one file, as where a debug link leads back.
func sameAs(f *os.File, r io.ReaderAt) bool {
	other, ok := r.(*os.File)
	if !ok {
		return false
	}
	var a, b unix.Stat_t
	if unix.Fstat(int(f.Fd()), &a) != nil || unix.Fstat(int(other.Fd()), &b) != nil {
		return false
	}
	return a.Dev == b.Dev && a.Ino == b.Ino
}

const (
	maxMini  = 64 << 20 // what .gnu_debugdata may decompress to
	maxRatio = 64       // and how many times its size
)

// mini opens the ELF file in .gnu_debugdata ("MiniDebugInfo", GDB manual): the
// symbols of a stripped file's own functions. nil where there is none.
func (im *image) mini() (*image, error) {
	section := im.file.Section(".gnu_debugdata")
	if section == nil {
		return nil, nil
	}
	packed, err := im.table(section, maxMini)
	if err != nil {
		return nil, err
	}
	data, err := debugfile.Unxz(packed, min(maxMini, maxRatio*len(packed)))
	if err != nil {
		return nil, err
	}
	found, err := openImage(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	found.asked = im.asked
	return found, nil
}

// hasDWARF says whether the file describes functions, and not too many.
func (im *image) hasDWARF() bool {
	s := im.file.Section(".debug_info")
	return s != nil && s.Type != elf.SHT_NOBITS && s.Size > 0 && s.Size <= maxDWARF
}
