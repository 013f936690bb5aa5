package tracer

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// account is who is charged for what the unwinder keeps of a process's code; its zero value is root.
type account struct {
	uid uint32
	ns  uint64 // inode of the user namespace that root has made for others, such as a container's; 0: none
	// system: for what root has installed, of which users have more, as they can't shape it.
	system bool
}

// forSystem is the account for what root has installed.
func (a account) forSystem() account {
	a.system = a != root
	return a
}

var (
	root   = account{}
	nobody = account{uid: 65534}
)

func (a account) String() string {
	if a.ns != 0 {
		return fmt.Sprintf("user namespace %d", a.ns)
	}
	return fmt.Sprintf("user %d", a.uid)
}

// processAccount returns who answers for process pid: its real user. In a user namespace that is who has made the
// outermost one that is not ours, as anyone may have thousands of users in one of his own (newuidmap(1)).
func processAccount(pid int) account {
	uid, err := realUser(pid)
	if err != nil {
		return nobody
	}
	if maker, ns, ok := foreignNamespace(pid); ok {
		if maker != 0 {
			return account{uid: maker}
		}
		return account{ns: ns}
	}
	return account{uid: uid}
}

// realUser reads a process's real user from its status: the owner of /proc/PID is root where a process is not dumpable.
func realUser(pid int) (uint32, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Uid:"); ok {
			uid, err := strconv.ParseUint(strings.Fields(text + " x")[0], 10, 32)
			return uint32(uid), err
		}
	}
	return 0, os.ErrNotExist
}

// Requests of ioctl_nsfs(2).
const nsGetParent, nsGetOwnerUID = 0xb702, 0xb704

// maxNamespaces is how deep user namespaces can be nested (user_namespaces(7)).
const maxNamespaces = 32

// foreignNamespace returns the outermost user namespace of a process below our own, and who has made it.
func foreignNamespace(pid int) (maker uint32, inode uint64, ok bool) {
	var own, st unix.Stat_t
	if unix.Stat("/proc/self/ns/user", &own) != nil {
		return 0, 0, false
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, false
	}
	defer func() { _ = unix.Close(fd) }()
	for range maxNamespaces + 1 {
		if unix.Fstat(fd, &st) != nil || st.Ino == own.Ino {
			return maker, inode, inode != 0
		}
		inode = st.Ino
		uid, err := unix.IoctlGetUint32(fd, nsGetOwnerUID)
		if err != nil {
			return 0, 0, false
		}
		maker = uid
		parent, err := unix.IoctlRetInt(fd, nsGetParent)
		if err != nil {
			return maker, inode, true // ours is not among its parents
		}
		_ = unix.Close(fd)
		fd = parent
	}
	return maker, inode, true
}

// fileFacts is what the kernel says of an open file.
type fileFacts struct {
	stat unix.Stat_t
	fuse bool // its file system is a program, which says of the file what it likes
	suid bool // it could be set-user-ID: whoever may mount there is trusted
}

func factsOf(f *os.File) (x fileFacts, err error) {
	fd := int(f.Fd())
	if err := unix.Fstat(fd, &x.stat); err != nil {
		return x, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return x, fmt.Errorf("statfs %s: %w", f.Name(), err)
	}
	x.fuse = uint32(fs.Type) == unix.FUSE_SUPER_MAGIC
	x.suid = fs.Flags&unix.MS_NOSUID == 0
	return x, nil
}

// account returns who is charged for a file that a process of the given account maps: who maps it; the file's owner
// where root maps a file of another's.
func (x *fileFacts) account(mapper account) account {
	const others, group = unix.S_IWOTH, unix.S_IWGRP
	roots := x.stat.Uid == 0 && !x.fuse && x.stat.Mode&others == 0 && (x.stat.Mode&group == 0 || x.stat.Gid == 0)
	switch {
	case roots && (x.suid || mapper == root):
		return mapper.forSystem()
	case mapper != root:
		return mapper
	case x.fuse || x.stat.Uid == 0:
		return nobody
	}
	return account{uid: x.stat.Uid}
}

func (x *fileFacts) identity() fileIdentity {
	st := &x.stat
	return fileIdentity{device: st.Dev, inode: st.Ino, size: st.Size, sec: st.Ctim.Sec, nsec: st.Ctim.Nsec}
}
