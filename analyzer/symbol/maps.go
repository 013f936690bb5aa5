package symbol

import (
	"strings"

	"github.com/memtrace/memtrace/procfs"
)

// region is one executable line of /proc/PID/maps.
type region struct {
	start, end uint64
	offset     uint64 // of start in the file
	major      uint32
	minor      uint32
	inode      uint64
	path       string // unescaped, without " (deleted)"; or [vdso] and the like; or ""
	deleted    bool
}

// fileBacked tells whether a file of some file system lies behind the region.
func (r region) fileBacked() bool {
	return r.inode != 0 && strings.HasPrefix(r.path, "/")
}

// maxRegions bounds what is read of /proc/PID/maps; the kernel allows 65,530 mappings unless it is told otherwise.
const maxRegions = 1 << 18

// codeMaps is what a /proc/PID/maps says of code.
type codeMaps struct {
	regions []region // ascending
	any     bool     // the process has mappings at all
	names   procfs.Names
	more    int // regions that had no room
}

// readMapsOf reads the mappings of code of a process, or thread, by its folder of /proc.
func readMapsOf(proc string) (*codeMaps, error) {
	return listed(func(fn func(*procfs.VMA) bool) (bool, error) { return procfs.Code(proc, fn) })
}

// listed takes what procfs.Code lists.
func listed(code func(fn func(*procfs.VMA) bool) (bool, error)) (*codeMaps, error) {
	c := &codeMaps{}
	var err error
	c.any, err = code(func(v *procfs.VMA) bool {
		if len(c.regions) >= maxRegions {
			c.more++
			return true
		}
		c.regions = append(c.regions, region{
			start: v.Start, end: v.End, offset: v.Offset, major: v.DevMajor, minor: v.DevMinor, inode: v.Inode,
			path: c.names.Of(v.FilePath()), deleted: v.Gone(), // nothing of v is kept
		})
		return true
	})
	return c, err
}

func (r region) sameFile(o region) bool {
	return r.major == o.major && r.minor == o.minor && r.inode == o.inode
}
