package probe

import (
	"fmt"
	"os"

	"github.com/memtrace/memtrace/procfs"
)

// Mapping is an executable mapping of a process.
type Mapping struct {
	Range
	Major, Minor uint32 // of the device, as maps shows it
	Inode        uint64 // 0: no file
	Path         string // without " (deleted)"; "[vdso]" and the like where there is no file

	moved bool // to anonymous memory, from the file
}

// Executable lists the executable mappings of a process, files and others, in
// order of address, but for the kernel's own ([vsyscall]). Code of a file that the process has moved to anonymous memory
// is listed as the file's. Root is where the proc file system is mounted.
func Executable(root string, pid int) ([]Mapping, error) {
	dir := memoryDir(root, pid)
	out, err := executable(func(fn func(*procfs.VMA) bool) (bool, error) { return procfs.Code(dir, fn) })
	if err != nil {
		return nil, fmt.Errorf("list the code of process %d: %w", pid, exited(err))
	}
	return out, nil
}

// executable is Executable of what is listed.
func executable(code func(fn func(*procfs.VMA) bool) (bool, error)) (out []Mapping, err error) {
	var names procfs.Names
	full := false
	_, err = code(func(v *procfs.VMA) bool {
		if int64(v.Start) < 0 {
			return true
		}
		if full = len(out) == maxMappings; !full {
			out = append(out, mappingOf(v, &names))
		}
		return !full
	})
	if full {
		err = fmt.Errorf("read maps: more than %d executable mappings", maxMappings)
	}
	return out, err
}

// mappingOf keeps nothing of v.
func mappingOf(v *procfs.VMA, names *procfs.Names) Mapping {
	return Mapping{Range{v.Start, v.End, v.Offset}, v.DevMajor, v.DevMinor, v.Inode, names.Of(v.FilePath()), v.Moved}
}

// Open opens the very file that is mapped at m in process pid.
func (m Mapping) Open(root string, pid int) (*os.File, error) {
	return openMapped(memoryDir(root, pid), m.mapping())
}

func (m Mapping) mapping() mapping {
	return mapping{Range: m.Range, major: m.Major, minor: m.Minor, inode: m.Inode, path: m.Path}
}
