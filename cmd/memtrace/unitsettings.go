//go:build linux && !viewer

package main

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

// ownUser reports whether it runs as another user than root.
func (u *serviceUnit) ownUser() bool {
	user := u.last("User")
	return u.says("DynamicUser") || user != "" && user != "root" && user != "0"
}

// capabilities are those that its processes have.
func (u *serviceUnit) capabilities() uint64 {
	const all = ^uint64(0)
	bounding := capabilityBits(u.settings["CapabilityBoundingSet"], all)
	if u.ownUser() {
		return capabilityBits(u.settings["AmbientCapabilities"], 0) & bounding
	}
	return bounding
}

// capabilityBits are the capabilities that lines of a setting come to (systemd.exec(5), CapabilityBoundingSet=), of
// which initial is what counts without any: a line adds to those before it, one with a ~ takes from them, the first one
// and an empty one replace them.
func capabilityBits(lines []string, initial uint64) uint64 {
	set := initial
	for _, line := range lines {
		list, without := strings.CutPrefix(line, "~")
		words := unitWords(list)
		named := namedCapabilities(words)
		switch {
		case (len(words) == 0 || set == initial) && without:
			set = ^named
		case len(words) == 0 || set == initial:
			set = named
		case without:
			set &^= named
		default:
			set |= named
		}
	}
	return set
}

// namedCapabilities are those that memtrace knows; a bit that none has stands for all others.
func namedCapabilities(words []string) (named uint64) {
	const others = 63
	for _, word := range words {
		bit := uint(others)
		for _, c := range append(needed(), capability{bit: capSysAdmin, name: "CAP_SYS_ADMIN"},
			capability{bit: capNetBindService, name: "CAP_NET_BIND_SERVICE"}) {
			if strings.EqualFold(word, c.name) {
				bit = c.bit
			}
		}
		named |= 1 << bit
	}
	return named
}

// memory is the most that its processes may take together, and the setting that says so; 0 where nothing is said.
func (u *serviceUnit) memory() (most uint64, by string) {
	for _, name := range []string{"MemoryMax", "MemoryHigh", "MemoryLimit"} {
		if n := unitSize(u.last(name)); n > 0 && (most == 0 || n < most) {
			most, by = n, name
		}
	}
	return most, by
}

// unitSize is a size or a share of the machine's memory (systemd.resource-control(5)), 0 for infinity.
func unitSize(text string) uint64 {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		part, err := strconv.ParseFloat(share, 64)
		var info unix.Sysinfo_t
		if err != nil || part >= 100 || unix.Sysinfo(&info) != nil {
			return 0
		}
		return uint64(part / 100 * float64(info.Totalram) * float64(info.Unit))
	}
	if strings.ContainsAny(text[max(0, len(text)-1):], "KMGT") { // powers of 1024
		text += "iB"
	}
	n, err := threshold.ParseSize(text)
	if err != nil {
		return 0
	}
	return n
}

// makes reports whether systemd makes a folder for it, or one above it.
func (u *serviceUnit) makes(folder string) bool {
	return slices.ContainsFunc(u.words("StateDirectory"), func(name string) bool {
		name, _, _ = strings.Cut(name, ":") // behind it, links
		return isIn(folder, filepath.Join("/var/lib", name))
	})
}

// letsWrite reports whether it doesn't keep a folder from being written to, whoever may.
func (u *serviceUnit) letsWrite(folder string) bool {
	if u.last("ProtectSystem") != "strict" && !u.says("DynamicUser") {
		return true
	}
	return slices.ContainsFunc(u.words("ReadWritePaths"), func(path string) bool {
		return isIn(folder, filepath.Clean(strings.TrimLeft(path, "-+")))
	})
}

func isIn(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// unitUser is whom a unit's processes are of, as far as that is known before they run.
type unitUser struct {
	uid    uint32
	known  bool // uid; systemd chooses that of a DynamicUser=
	groups []uint32
}

func (u *serviceUnit) user() (is unitUser) {
	name := u.last("User")
	if name == "" {
		name = strings.TrimSuffix(serviceUnitName, ".service") // a DynamicUser= is one of the system's, if there is any
	}
	found, err := user.Lookup(name)
	if err != nil {
		found, err = user.LookupId(name)
	}
	if err == nil {
		name = found.Uid
		is.addGroup(found.Gid)
		groups, _ := found.GroupIds()
		for _, id := range groups {
			is.addGroup(id)
		}
	}
	if id, err := strconv.ParseUint(name, 10, 32); err == nil {
		is.uid, is.known = uint32(id), true
	}
	for _, group := range append(u.words("SupplementaryGroups"), u.last("Group")) {
		if found, err := user.LookupGroup(group); err == nil {
			group = found.Gid
		}
		is.addGroup(group)
	}
	return is
}

func (is *unitUser) addGroup(id string) {
	if id, err := strconv.ParseUint(id, 10, 32); err == nil {
		is.groups = append(is.groups, uint32(id))
	}
}

// may reports whether all of some rights, such as 4 to read, are given to this user.
func (is *unitUser) may(info os.FileInfo, rights os.FileMode) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch {
	case is.known && st.Uid == is.uid:
		rights <<= 6
	case slices.Contains(is.groups, st.Gid):
		rights <<= 3
	}
	return info.Mode().Perm()&rights == rights
}
