package symbol

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

const (
	vdsoPath = "[vdso]"
	// maxVDSO is the largest image of a vDSO read; it has a few pages.
	maxVDSO = 1 << 20
)

// openVDSO reads the image of the vDSO at r out of the process's memory, or,
// where that may not be read, out of our own: the kernel gives all processes
// of one kind the same. nil where neither can be had.
func (s *Space) openVDSO(r region) *mappedFile {
	size := r.end - r.start
	if size > maxVDSO {
		return nil
	}
	data := make([]byte, size)
	if readMemory(s.proc, r.start, data) != nil && readOwnVDSO(data) != nil {
		return nil
	}
	f, err := files.openMemory(data, vdsoPath)
	if err != nil {
		s.warnings.add(vdsoPath, err.Error())
		return nil
	}
	return f
}

func readMemory(proc string, addr uint64, data []byte) error {
	mem, err := os.Open(proc + "/mem")
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.ReadAt(data, int64(addr))
	return err
}

// readOwnVDSO reads memtrace's own vDSO, if it has the size of data.
func readOwnVDSO(data []byte) error {
	const self = "/proc/self"
	maps, err := readMapsOf(self)
	if err != nil {
		return err
	}
	for _, r := range maps.regions {
		if r.path == vdsoPath && r.end-r.start == uint64(len(data)) {
			return readMemory(self, r.start, data)
		}
	}
	return fmt.Errorf("no vDSO of %d bytes", len(data))
}

// openMemory makes a file of data, shared by all that have the same content.
func (t *fileTable) openMemory(data []byte, path string) (*mappedFile, error) {
	sum := sha256.Sum256(data)
	key := fileKey{dev: math.MaxUint64, ino: binary.LittleEndian.Uint64(sum[:]), size: int64(len(data))}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.files[key]; f != nil {
		f.refs++
		return f, nil
	}
	f, err := memoryFile(data, path)
	if err != nil {
		return nil, err
	}
	f.key = key
	t.files[key] = f
	return f, nil
}
