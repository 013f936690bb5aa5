package symbol

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// view is the root directory in which debug files of a module are looked for: what
// lies there speaks for the processes of that root alone. The zero view is not valid;
// ownView is that of processes with memtrace's own root.
type view struct {
	root int // descriptor of O_PATH, or -1: memtrace's own
	key  viewKey
}

// viewKey tells root directories apart. One directory may be mounted in several
// namespaces, with other files mounted into it: the mount is part of the key.
type viewKey struct {
	mount    int64 // mount ID; it is not given to another mount as long as root is open
	dev, ino uint64
}

var ownView = view{root: -1}

// newView is the view of a process with a root directory, which stays the caller's.
// Where it can't be told from others, there is no looking into it.
func newView(root int) view {
	if root < 0 {
		return ownView
	}
	var st unix.Stat_t
	mount, err := mountID(root)
	if err != nil || unix.Fstat(root, &st) != nil {
		return view{root: -1, key: viewKey{mount: -1}}
	}
	return view{root: root, key: viewKey{mount, uint64(st.Dev), st.Ino}}
}

// foreign says that the view is that of another root than memtrace's own.
func (v view) foreign() bool { return v.key != viewKey{} }

// keep returns the view with a descriptor of its own: the root belongs to a Space,
// which may go before the module does.
func (v view) keep() view {
	if v.root < 0 {
		return v
	}
	root, err := unix.FcntlInt(uintptr(v.root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		root = -1
	}
	v.root = root
	return v
}

func (v *view) close() {
	if v.root >= 0 {
		unix.Close(v.root)
		v.root = -1
	}
}

// mountID reads which mount a descriptor leads to (proc_pid_fdinfo(5)).
func mountID(fd int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseInt(strings.TrimSpace(id), 10, 64)
		}
	}
	return 0, os.ErrNotExist
}

// open opens a file that a module's names are to be taken from: below the process's own
// root, else, unless elsewhere is false, below ours. Only root, the user that memtrace
// runs as and the module's owner can have written it. belongs tells whether it is the right one.
func (v view) open(name string, module *mappedFile, elsewhere bool, belongs func(*image) bool) (*image, error) {
	var refused error
	if v.root >= 0 {
		fd, st, err := debugfile.OpenOwnIn(v.root, name)
		img, err := take(fd, st, err, name, module, belongs)
		if img != nil || !elsewhere {
			return img, err
		}
		refused = err
	}
	if v.foreign() && !elsewhere {
		return nil, refused
	}
	fd, st, err := debugfile.OpenOwn(name)
	img, err := take(fd, st, err, name, module, belongs)
	if err == nil {
		err = refused
	}
	return img, err
}

// take opens the file behind fd, which it closes; the error says that it was refused.
func take(fd int, st unix.Stat_t, err error, name string, module *mappedFile, belongs func(*image) bool) (*image, error) {
	if err == nil && !trusts(st, module) {
		err = fmt.Errorf("open %s: %w", name, debugfile.ErrOthersWrite)
		unix.Close(fd)
	}
	if err == nil {
		return debugImage(fd, name, belongs)
	}
	if !debugfile.Refused(err) {
		err = nil // there is none
	}
	return nil, err
}

// trusts tells whether only those may have written a file who may speak for the module.
// Who is root in a root directory of their own need not be.
func trusts(st unix.Stat_t, module *mappedFile) bool {
	const group, others = 0o020, 0o002
	if !debugfile.Owned(st.Uid, module.owner) || st.Mode&others != 0 {
		return false
	}
	return st.Mode&group == 0 || st.Gid == 0 || st.Gid == module.group
}
