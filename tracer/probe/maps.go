package probe

import (
	"fmt"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// maxMappings bounds the executable mappings that are read of a process.
const maxMappings = 1 << 18

// mapping is an executable file mapping, a line of /proc/PID/maps (see
// proc_pid_maps(5)).
type mapping struct {
	Range
	major, minor uint32
	inode        uint64
	path         string // unescaped, without " (deleted)"
}

// key identifies a file as maps does.
type fileKey struct {
	major, minor uint32
	inode        uint64
}

func (m mapping) key() fileKey {
	return fileKey{m.major, m.minor, m.inode}
}

// codeList is what is read of a process's executable mappings.
type codeList struct {
	mappings []mapping // those of files
	any      bool      // the process has mappings at all
	sum      procfs.CodeSum
	took     time.Duration
}

// readMaps reads the executable mappings of a process by its directory in /proc.
func readMaps(dir string) (l codeList, err error) {
	began := time.Now()
	var names procfs.Names
	full := false
	l.any, err = procfs.Code(dir, func(v *procfs.VMA) bool {
		l.sum.Add(v)
		if v.Inode == 0 || v.Moved {
			return true
		}
		if full = len(l.mappings) == maxMappings; full {
			return false
		}
		path := names.Of(v.FilePath()) // which keeps none of v
		l.mappings = append(l.mappings,
			mapping{Range{v.Start, v.End, v.Offset}, v.DevMajor, v.DevMinor, v.Inode, path})
		return true
	})
	l.took = time.Since(began)
	if full {
		err = fmt.Errorf("read maps: more than %d executable mappings", maxMappings)
	}
	return l, err
}
