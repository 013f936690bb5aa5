//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

const (
	configName    = "memtrace/config.yaml" // below a directory for configuration
	machineConfig = "/etc/" + configName
)

// A caller is who has called memtrace: behind sudo, who has called that.
type caller struct {
	uid, gid int
	home     string // "" if it is not known
	bySudo   bool
}

// callerOf tells who has called memtrace. Only root may be told by sudo's variables: nobody else can become the user that they name.
func callerOf() caller {
	own := caller{uid: os.Getuid(), gid: os.Getgid(), home: os.Getenv("HOME")}
	uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 31)
	if err != nil || uid == 0 || own.uid != 0 || !hasCallersRights() {
		return own
	}
	gid, err := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 31)
	if err != nil {
		return own
	}
	behind := caller{uid: int(uid), gid: int(gid), bySudo: true}
	if known, err := user.LookupId(strconv.FormatUint(uid, 10)); err == nil {
		behind.home = known.HomeDir
	}
	return behind
}

// do runs f with the rights of the caller.
func (c caller) do(f func() error) error {
	if c.bySudo {
		return asOther(c.uid, c.gid, f)
	}
	return asCaller(f)
}

// A configFile is one that flags have their defaults from.
type configFile struct {
	path    string
	reader  caller // whose rights it is read with
	owners  []int  // who may own it
	absent  bool
	hidden  error // why the reader can't tell whether there is one
	refused error // why it is not to be trusted
	err     error // what is wrong in it
	entries []config.Entry
}

// wrong is what keeps a command from running with this file; nil if nothing does. Without it, a file that is there
// would be left out, and what it asks for (a --fail-on of a CI job) with it.
func (f *configFile) wrong() error {
	if f.refused != nil {
		return fmt.Errorf("%s is refused: %w", f.path, f.refused)
	}
	return f.err
}

// configFiles are the caller's file and the machine's, the one that counts first.
func configFiles(who caller) []*configFile {
	var out []*configFile
	if dir := configHome(who); dir != "" {
		out = append(out, &configFile{path: filepath.Join(dir, configName), reader: who, owners: []int{0, who.uid}})
	}
	machine := who
	machine.bySudo = false // it is root's own
	return append(out, &configFile{path: machineConfig, reader: machine, owners: []int{0}})
}

// configHome is as the XDG Base Directory Specification says: a relative path counts as none.
func configHome(who caller) string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if !filepath.IsAbs(who.home) {
		return ""
	}
	return filepath.Join(who.home, ".config")
}

// read reads the file if there is one and it may be trusted.
func (f *configFile) read(schema config.Schema) {
	var text []byte
	err := f.reader.do(func() (err error) {
		text, err = f.trusted()
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		f.absent = true
	case errors.Is(err, errHidden):
		f.hidden = err
	case err != nil:
		f.refused = err
	default:
		f.entries, f.err = config.Parse(f.path, text, schema)
	}
}

// errHidden is of a file in a place that its reader may not look into: HOME is still somebody else's, as in a
// service or a container that runs as another user. Nobody has said there that a file is for that reader.
var errHidden = errors.New("permission denied to look into its directory")

// trusted is the file's text, unless somebody has a hand in it whom memtrace does not act for.
func (f *configFile) trusted() ([]byte, error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_NONBLOCK, 0) // to open a FIFO waits for its writer
	if errors.Is(err, fs.ErrPermission) {
		return nil, f.unreadable()
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, err
	}
	if err := f.judge(&st); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(file, config.MaxFile+1))
}

// unreadable says why the reader was denied the file.
func (f *configFile) unreadable() error {
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrPermission) {
		return errHidden
	}
	return fmt.Errorf("permission denied: let user %d read it, or remove it", f.reader.uid)
}

func (f *configFile) judge(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it is no regular file: remove it, or put a file there")
	}
	if !slices.Contains(f.owners, int(st.Uid)) {
		const text = "it belongs to user %d, for whom memtrace does not run: if you trust it, chown %d %s; if not, %s"
		return fmt.Errorf(text, st.Uid, f.owners[len(f.owners)-1], f.path, f.instead())
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("others than its owner may write it: chmod go-w %s", f.path)
	}
	return nil
}

// instead is what to do about a file that is not meant.
func (f *configFile) instead() string {
	if f.path == machineConfig {
		return "remove it"
	}
	return "set XDG_CONFIG_HOME to a directory of your own"
}

// openNamed opens the file that a flag names, with the rights of who named it: behind sudo, a file that its caller has
// configured is one that this caller can read.
func openNamed(c *cli.Context, flag string) (f *os.File, err error) {
	path, e := c.Path(flag), configuredOf(c.App)[flag]
	if c.IsSet(flag) || e == nil || strings.HasPrefix(e.Where, machineConfig+":") {
		return openAsCaller(path)
	}
	err = callerOf().do(func() error { f, err = os.Open(path); return err })
	return f, err
}

// withoutPath is an error of a file whose path is said beside it.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
