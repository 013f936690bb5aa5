package probe

import (
	"fmt"

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

// readMaps reads the executable file mappings of a process by its directory in /proc. Any says whether it has mappings
// at all.
func readMaps(dir string) (out []mapping, any bool, err error) {
	var names procfs.Names
	full := false
	any, err = procfs.Code(dir, func(v *procfs.VMA) bool {
		if v.Inode == 0 || v.Moved {
			return true
		}
		if full = len(out) == maxMappings; full {
			return false
		}
		out = append(out, mapping{
			Range{v.Start, v.End, v.Offset}, v.DevMajor, v.DevMinor, v.Inode, names.Of(v.FilePath()), // which keeps none of v
		})
		return true
	})
	if full {
		err = fmt.Errorf("read maps: more than %d executable mappings", maxMappings)
	}
	if err != nil {
		return nil, any, err
	}
	return out, any, nil
}
