package agent

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/procfs/collect"
)

// unknownUser is one that could not be asked for. No user has this number.
const unknownUser = ^uint32(0)

// processGroup is the control group that a process is in, and whose process it is.
type processGroup struct {
	known bool // the rest of it
	path  string
	named

	pod  pod // zero: none, or none that the kubelet names
	user uint32
}

// groupOf is that of a process. What runs in a user's session is the user's, setuid programs included: they have the
// name by which the user calls them.
func groupOf(p *collect.Process, owners *groupOwners, pods *pods) processGroup {
	g := processGroup{user: unknownUser}
	if p.Outcome(collect.User).Ok() {
		g.user = p.UID
	}
	if !p.Outcome(collect.Cgroup).Ok() {
		return g
	}
	g.known, g.path = true, owners.onHost(p.Cgroup)
	g.named = owners.of(g.path)
	g.pod = pods.of(g.byRoot)
	if uid, ok := sessionUser(g.byRoot); ok {
		g.user = uid
	}
	return g
}

// ownerOf is who has named a part of the group's path: root, or the user.
func (g *processGroup) ownerOf(part string) uint32 {
	if !g.rest || isBelow(g.byRoot, part) {
		return 0
	}
	return g.owner
}

// sessionUser is whose session a group is of, as systemd-logind calls it: /user.slice/user-UID.slice.
func sessionUser(group string) (uid uint32, ok bool) {
	rest, ok := strings.CutPrefix(group, "/user.slice/user-")
	if !ok {
		return 0, false
	}
	id, _, ok := strings.Cut(rest, ".slice")
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), ok && err == nil
}

// groupOwners tells who named a control group. systemd gives a user the group user@UID.service, and a unit with
// Delegate= one of its own: below it, they make groups of any name, such as that of another's unit. A group is named by
// who can make groups in its parent, so the parents' owners are asked, from the root down.
type groupOwners struct {
	root  string           // where the hierarchy is mounted; "": it is not, and paths alone say what they can
	own   string           // the group that this process takes for the root, "" for the root itself
	known map[string]named // by group, of one pass
}

// A named is what of a control group's path was named by root, and who named the rest.
type named struct {
	byRoot string // "/" at least
	rest   bool   // there is more, which owner named
	owner  uint32
}

func openGroupOwners() *groupOwners {
	h, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		return &groupOwners{}
	}
	defer h.Close()
	// In a container, the agent's own group may be mounted as the root, and others are outside. The machine's first
	// process has all of them, where it can be seen. If it can't, paths say what they can.
	machine := path.Join("/proc/1/root", h.Root())
	own, apart := groupIn(machine, h.Root()), !sameGroupNamespace()
	switch {
	case own != "" && own != "/" && apart:
		return &groupOwners{root: machine, own: own}
	case own != "" && own != "/":
		return &groupOwners{root: machine}
	case own == "" && (apart || !ownGroupIn(h.Root())):
		return &groupOwners{}
	}
	return &groupOwners{root: h.Root()}
}

// ownGroupIn reports whether a hierarchy has the group of this process where its path says.
func ownGroupIn(root string) bool {
	proc, err := procfs.New("/proc")
	if err != nil {
		return false
	}
	p, err := proc.Process(os.Getpid())
	if err != nil {
		return false
	}
	defer p.Close()
	group, err := p.Cgroup()
	if err != nil {
		return false
	}
	_, err = os.Lstat(path.Join(root, group))
	return err == nil
}

// sameGroupNamespace reports whether this process sees groups as the machine's first one does. With a namespace of its
// own, it sees others as /../../NAME.
func sameGroupNamespace() bool {
	own, err := os.Readlink("/proc/self/ns/cgroup")
	first, errFirst := os.Readlink("/proc/1/ns/cgroup")
	return err != nil || errFirst != nil || own == first
}

// groupIn is the group in a hierarchy that is mounted elsewhere as its own root; "" where it is not found.
func groupIn(hierarchy, mounted string) (group string) {
	own, err := os.Stat(mounted)
	if err != nil {
		return ""
	}
	left := maxGroups
	_ = filepath.WalkDir(hierarchy, func(dir string, entry fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if err != nil || !entry.IsDir() {
			return nil // gone, or not for us
		}
		if info, err := entry.Info(); err == nil && os.SameFile(info, own) {
			group = path.Join("/", strings.TrimPrefix(dir, hierarchy))
			return fs.SkipAll
		}
		return nil
	})
	return group
}

// maxGroups is how many files and directories of a hierarchy are looked at: a machine has thousands.
const maxGroups = 1 << 20

// onHost is a group as the machine has it, of one that this process sees from its namespace.
func (g *groupOwners) onHost(group string) string {
	if g == nil || g.own == "" || !path.IsAbs(group) {
		return group
	}
	return path.Join(g.own, group)
}

// begin is for a new pass: groups may be others by now.
func (g *groupOwners) begin() { g.known = make(map[string]named) }

// of looks a group up. A nil groupOwners goes by the path.
func (g *groupOwners) of(group string) named {
	if g == nil || g.root == "" || !path.IsAbs(group) || strings.HasPrefix(group, "/..") {
		return byPath(group)
	}
	n, ok := g.known[group]
	if !ok {
		if n = g.ask(group); g.known != nil {
			g.known[group] = n
		}
	}
	return n
}

// ask looks at the directories. Of a group that is gone, and whose process is in another one by now, nothing is known.
func (g *groupOwners) ask(group string) named {
	at := "/"
	for component := range strings.SplitSeq(strings.Trim(path.Clean(group), "/"), "/") {
		if component == "" {
			break
		}
		if owner, root := makerIn(path.Join(g.root, at)); !root {
			return named{byRoot: at, rest: true, owner: owner}
		}
		at = path.Join(at, component)
	}
	if _, err := os.Lstat(path.Join(g.root, at)); err != nil {
		return named{byRoot: "/", rest: true, owner: unknownUser}
	}
	return named{byRoot: at}
}

// makerIn says who may make groups in a directory; root: nobody else may.
func makerIn(dir string) (owner uint32, root bool) {
	info, err := os.Lstat(dir)
	if err != nil {
		return unknownUser, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return st.Uid, ok && onlyRoots(info)
}

// onlyRoots reports whether nobody but root may write to a file or a directory.
func onlyRoots(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	const writable fs.FileMode = 0o022
	return ok && st.Uid == 0 && info.Mode().Perm()&writable == 0
}

// byPath goes by how systemd calls a user's own groups: user@UID.service.
func byPath(group string) named {
	at := ""
	for component := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		at += "/" + component
		user, service := strings.CutSuffix(component, ".service")
		id, users := strings.CutPrefix(user, "user@")
		uid, err := strconv.ParseUint(id, 10, 32)
		if service && users && err == nil && uid != 0 && len(at) < len(group) {
			return named{byRoot: at, rest: true, owner: uint32(uid)}
		}
	}
	return named{byRoot: group}
}
