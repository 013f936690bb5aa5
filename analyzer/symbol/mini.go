package symbol

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// maxMini bounds what .gnu_debugdata decompresses to; that of a large browser
// has some 30 MB.
const maxMini = 64 << 20

// openMini opens the ELF file in .gnu_debugdata ("MiniDebugInfo", GDB manual):
// the symbols of a stripped module's own functions. nil where there is none.
func openMini(img *image) (*image, error) {
	packed, err := img.section(".gnu_debugdata")
	if err != nil || packed == nil {
		return nil, err
	}
	data, err := debugfile.Unxz(packed, min(maxMini, maxRatio*len(packed)))
	if err != nil {
		return nil, fmt.Errorf("decompress section .gnu_debugdata of %s: %w", img.file.path, err)
	}
	f, err := memoryFile(data, ".gnu_debugdata of "+img.file.path)
	if err != nil {
		return nil, err
	}
	return openImage(f)
}

// memoryFile makes a file of data, in memory outside the Go heap.
func memoryFile(data []byte, path string) (*mappedFile, error) {
	f := &mappedFile{path: path, owned: true, refs: 1}
	if len(data) == 0 {
		return f, nil
	}
	var err error
	f.data, err = unix.Mmap(-1, 0, len(data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("take memory for %s: %w", path, err)
	}
	copy(f.data, data)
	return f, nil
}
