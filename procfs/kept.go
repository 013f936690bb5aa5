//go:build linux && !viewer

package procfs

import (
	"golang.org/x/sys/unix"
)

// keptFiles are those that KeepOpen keeps open.
var keptFiles = [...]string{fileStat, fileStatm}

// KeptDescriptors is how many descriptors a Process may hold beside its
// directory after KeepOpen.
const KeptDescriptors = len(keptFiles)

// KeepOpen lets stat and statm stay open from one reading to the next, which
// saves a third of what reading them takes. They are of the same process for
// ever, as its directory is. In a tree of files that only looks like proc they
// are opened each time.
func (p *Process) KeepOpen() { p.keep = p.genuine }

// readKept is readFrom for a file that stays open: its slot in p.kept holds
// the descriptor and 1, so that 0 says that it isn't open yet.
func (p *Process) readKept(slot int, name string, buf []byte) ([]byte, error) {
	if p.kept[slot] == 0 {
		fd, err := p.open(name)
		if err != nil {
			return nil, p.wrap("open", plain(name), err)
		}
		p.kept[slot] = fd + 1
	}
	for {
		n, err := unix.Pread(p.kept[slot]-1, buf, 0)
		switch err {
		case nil:
			return buf[:n], nil
		case unix.EINTR:
		default:
			return nil, p.wrap("read", plain(name), err)
		}
	}
}

// keptSlot is the slot of a file that is to stay open, or -1.
func (p *Process) keptSlot(dir int, name string) int {
	if p.keep && dir == p.dir {
		for i, kept := range keptFiles {
			if kept == name {
				return i
			}
		}
	}
	return -1
}

func (p *Process) dropKept() {
	for i, fd := range p.kept {
		if fd > 0 {
			_ = unix.Close(fd - 1)
		}
		p.kept[i] = 0
	}
}
