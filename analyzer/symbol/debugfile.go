package symbol

import (
	"errors"

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
// path as its process sees it. The error says why one was not read.
func (d debugFinder) find(img *image, modulePath string, v view) (*image, error) {
	found, err := d.byBuildID(img, v)
	if found != nil {
		return found, nil
	}
	found, linkErr := d.byDebugLink(img, modulePath, v)
	if found == nil {
		found = d.remote.find(img.buildID, img.file.owner)
	}
	if found != nil {
		return found, nil
	}
	return nil, errors.Join(err, linkErr)
}

// first opens the first of the files that can be had.
func (v view) first(names []string, module *mappedFile, belongs func(*image) bool) (img *image, refused error) {
	for _, name := range names {
		img, err := v.open(name, module, true, belongs)
		if img != nil {
			return img, nil
		}
		refused = errors.Join(refused, err)
	}
	return nil, refused
}

// byBuildID looks for DIR/.build-id/xx/yyyy.debug.
func (d debugFinder) byBuildID(img *image, v view) (*image, error) {
	return v.first(debugfile.BuildIDNames(d.dirs, img.buildID), img.file, hasBuildID(img.buildID))
}

// byDebugLink looks where gdb looks for the file that .gnu_debuglink names
// (GDB manual, "Separate Debug Files").
func (d debugFinder) byDebugLink(img *image, modulePath string, v view) (*image, error) {
	link, crc, ok := img.debugLink()
	if !ok {
		return nil, nil
	}
	belongs := func(debug *image) bool {
		if debug.file == img.file {
			return false
		}
		if img.buildID != "" && debug.buildID != "" {
			return img.buildID == debug.buildID
		}
		sum, ok := debug.file.checksum()
		return ok && sum == crc
	}
	// A path of another mount namespace says nothing of what lies beside it here.
	beside := v.foreign() || debugfile.LeadsTo(modulePath, img.file.key.dev, img.file.key.ino)
	return v.first(debugfile.LinkNames(d.dirs, modulePath, link, beside), img.file, belongs)
}

// debugImage opens the file behind fd, which it closes; nil where it is not the
// right one. The error says that it may be, and was not read.
func debugImage(fd int, name string, belongs func(*image) bool) (*image, error) {
	defer unix.Close(fd)
	f, err := files.open(fd, name)
	if err != nil {
		return nil, err
	}
	img, err := openImage(f)
	if err != nil {
		return nil, nil
	}
	kept := false
	defer func() {
		if !kept {
			img.close()
		}
	}()
	if kept = belongs(img); !kept {
		return nil, nil
	}
	return img, nil
}
