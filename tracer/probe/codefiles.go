package probe

import (
	"errors"
	"fmt"
	"os"
)

// A CodeFile is a file of which a process runs code: where its first such mapping lies.
type CodeFile struct {
	Start, Offset uint64 // address; in the file
	Path          string
	File          *os.File // for the caller to close
}

// CodeFiles opens those of the files that a process runs code of whose path is wanted, each once. Root is where the proc
// file system is mounted. What can't be opened is left out, and is the error beside the others. A process that has ended
// gives os.ErrProcessDone.
func CodeFiles(root string, pid int, wanted func(path string) bool) (out []CodeFile, err error) {
	dir := memoryDir(root, pid)
	listed, err := readMaps(dir)
	if err != nil {
		return nil, fmt.Errorf("read the mappings of process %d: %w", pid, exited(err))
	}
	return openWanted(dir, pid, listed.mappings, wanted)
}

// CodeFilesIn is CodeFiles of a process of which Executable has listed the mappings just now.
func CodeFilesIn(root string, pid int, listed []Mapping, wanted func(path string) bool) (out []CodeFile, err error) {
	var mappings []mapping
	for _, m := range listed {
		if m.Inode != 0 && !m.moved {
			mappings = append(mappings, m.mapping())
		}
	}
	return openWanted(memoryDir(root, pid), pid, mappings, wanted)
}

// openWanted opens each file that is mapped and wanted.
func openWanted(dir string, pid int, mappings []mapping, wanted func(path string) bool) (out []CodeFile, err error) {
	seen := make(map[fileKey]bool)
	var errs []error
	for _, m := range mappings {
		if seen[m.key()] || !wanted(m.path) {
			continue
		}
		seen[m.key()] = true
		file, err := openMapped(dir, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("open %s of process %d: %w", m.path, pid, err))
			continue
		}
		out = append(out, CodeFile{m.Start, m.Offset, m.path, file})
	}
	return out, errors.Join(errs...)
}
