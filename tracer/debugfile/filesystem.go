package debugfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrPseudo: a file that the kernel makes up as it is read. Reading it may
	// wait, or take away what others were to read, as with /proc/kmsg.
	ErrPseudo = errors.New("on a file system that the kernel makes up")
	// ErrFUSE: a file of which a process makes up the content, which that can
	// change, and let the reader wait for, at will.
	ErrFUSE = errors.New("on a file system that a process answers for (FUSE)")
)

// File systems of which x/sys/unix has no name: see ipc/mqueue.c, fs/configfs/mount.c,
// fs/fuse/control.c, net/sunrpc/rpc_pipe.c and fs/nfsd/nfsctl.c.
const (
	mqueueMagic    = 0x19800202
	configfsMagic  = 0x62656570
	fusectlMagic   = 0x65735543
	rpcPipefsMagic = 0x67596969
	nfsdMagic      = 0x6e667364
)

// pseudo are the file systems that the kernel makes up.
var pseudo = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.DEBUGFS_MAGIC: true, unix.TRACEFS_MAGIC: true,
	unix.SECURITYFS_MAGIC: true, unix.SELINUX_MAGIC: true, unix.SMACK_MAGIC: true, unix.AAFS_MAGIC: true,
	unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true, unix.RDTGROUP_SUPER_MAGIC: true,
	unix.BPF_FS_MAGIC: true, unix.DEVPTS_SUPER_MAGIC: true, unix.BINFMTFS_MAGIC: true, unix.BINDERFS_SUPER_MAGIC: true,
	unix.NSFS_MAGIC: true, unix.PID_FS_MAGIC: true, unix.PIPEFS_MAGIC: true, unix.SOCKFS_MAGIC: true,
	unix.ANON_INODE_FS_MAGIC: true, unix.PSTOREFS_MAGIC: true, unix.EFIVARFS_MAGIC: true, unix.XENFS_SUPER_MAGIC: true,
	unix.AUTOFS_SUPER_MAGIC: true, unix.USBDEVICE_SUPER_MAGIC: true, unix.OPENPROM_SUPER_MAGIC: true,
	unix.DMA_BUF_MAGIC: true, unix.SECRETMEM_MAGIC: true, unix.GUEST_MEMFD_MAGIC: true,
	mqueueMagic: true, configfsMagic: true, fusectlMagic: true, rpcPipefsMagic: true, nfsdMagic: true,
}

// checkFileSystem says why a file is not to be read for the file system that it lies on.
func checkFileSystem(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("look at its file system: %w", err)
	}
	switch magic := int64(uint32(fs.Type)); {
	case pseudo[magic]:
		return ErrPseudo
	case magic == unix.FUSE_SUPER_MAGIC && !mountedByRoot(fd):
		return ErrFUSE
	}
	return nil
}

// mountedByRoot reports whether a file lies on a FUSE file system that root has
// mounted where memtrace sees it, as virtiofs and sshfs may be. One that a user has
// mounted in a namespace of their own calls them root, but is not listed here.
func mountedByRoot(fd int) bool {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &st) != nil { // which doesn't ask the process
		return false
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && rootsFUSE(string(text), fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor))
}

// rootsFUSE looks a device up in text of the form of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
func rootsFUSE(text, device string) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if len(fields) < 6 || fields[2] != device || dash < 0 || len(fields) < dash+4 {
			continue
		}
		kind, options := fields[dash+1], strings.Split(fields[dash+3], ",")
		return kind == "virtiofs" || slices.Contains(options, "user_id=0")
	}
	return false
}
