package symbol

import (
	"hash/crc32"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// debugFinder looks for the separate debug file of a stripped module.
type debugFinder struct {
	dirs   []string // such as /usr/lib/debug
	remote *debuginfod
}

// find tries the sources in order and returns the first debug file that
// proves to belong to img; nil where there is none. modulePath is the module's
// path as its process sees it, root the process's root directory or -1.
func (d debugFinder) find(img *image, modulePath string, root int) *image {
	if found := d.byBuildID(img, root); found != nil {
		return found
	}
	if found := d.byDebugLink(img, modulePath, root); found != nil {
		return found
	}
	return d.remote.find(img.buildID)
}

// byBuildID looks for DIR/.build-id/xx/yyyy.debug.
func (d debugFinder) byBuildID(img *image, root int) *image {
	for _, name := range debugfile.BuildIDNames(d.dirs, img.buildID) {
		found := openDebug(name, root, func(debug *image) bool { return debug.buildID == img.buildID })
		if found != nil {
			return found
		}
	}
	return nil
}

// byDebugLink looks where gdb looks for the file that .gnu_debuglink names
// (GDB manual, "Separate Debug Files").
func (d debugFinder) byDebugLink(img *image, modulePath string, root int) *image {
	link, crc, ok := img.debugLink()
	if !ok {
		return nil
	}
	belongs := func(debug *image) bool {
		if debug.file == img.file {
			return false
		}
		if img.buildID != "" && debug.buildID != "" {
			return img.buildID == debug.buildID
		}
		return crc32.ChecksumIEEE(debug.file.data) == crc
	}
	for _, name := range debugfile.LinkNames(d.dirs, modulePath, link, true) {
		if found := openDebug(name, root, belongs); found != nil {
			return found
		}
	}
	return nil
}

// openDebug opens a debug file below the process's own root, else below ours,
// if it belongs to the module.
func openDebug(name string, root int, belongs func(*image) bool) *image {
	if root >= 0 {
		if fd, _, err := debugfile.OpenRegularIn(root, name); err == nil {
			if img := debugImage(fd, name, belongs); img != nil {
				return img
			}
		}
	}
	fd, _, err := debugfile.OpenRegular(name)
	if err != nil {
		return nil
	}
	return debugImage(fd, name, belongs)
}

// debugImage opens the file behind fd, which it closes.
func debugImage(fd int, name string, belongs func(*image) bool) *image {
	defer unix.Close(fd)
	f, err := files.open(fd, name)
	if err != nil {
		return nil
	}
	img, err := openImage(f)
	if err != nil {
		return nil
	}
	kept := false
	defer func() {
		if !kept {
			img.close()
		}
	}()
	if kept = belongs(img); !kept {
		return nil
	}
	return img
}
