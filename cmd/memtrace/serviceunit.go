//go:build linux && !viewer

package main

import (
	"bufio"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

// serviceUnit is what systemd would run memtrace serve by: the unit's file and its drop-ins. systemd is not asked.
type serviceUnit struct {
	file     string // "": there is none
	settings map[string][]string
}

const serviceUnitName = "memtrace.service"

// unitFolders are where units are, what counts first before the rest (systemd.unit(5)).
var unitFolders = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// readServiceUnit reads it below a root directory.
func readServiceUnit(root string) serviceUnit {
	u := serviceUnit{settings: make(map[string][]string)}
	dropIns := make(map[string]string) // by name
	for _, folder := range unitFolders {
		file := filepath.Join(root, folder, serviceUnitName)
		if u.file == "" && u.read(file) == nil {
			u.file = file
		}
		found, _ := filepath.Glob(file + ".d/*.conf")
		for _, f := range found {
			if name := filepath.Base(f); dropIns[name] == "" {
				dropIns[name] = f
			}
		}
	}
	if u.file == "" {
		return serviceUnit{}
	}
	for _, name := range slices.Sorted(maps.Keys(dropIns)) {
		_ = u.read(dropIns[name]) // one that can't be read says nothing
	}
	return u
}

// read takes the settings of a file (systemd.syntax(7)). An empty one takes back what was set before, and is kept.
func (u *serviceUnit) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	begun := "" // of a line that goes on
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		line = begun + line
		if more, ok := strings.CutSuffix(line, `\`); ok {
			begun = more + " "
			continue
		}
		begun = ""
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok:
		case value == "":
			u.settings[name] = []string{""}
		default:
			u.settings[name] = append(u.settings[name], value)
		}
	}
	return nil
}

// words are those of all lines of a setting. Quotes hold one together.
func (u *serviceUnit) words(name string) (out []string) {
	for _, line := range u.settings[name] {
		out = append(out, unitWords(line)...)
	}
	return out
}

func unitWords(line string) (out []string) {
	var word []rune
	var quote rune
	within, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			word, escaped = append(word, r), false
		case r == '\\':
			within, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word = append(word, r)
		case !within && (r == '"' || r == '\''):
			within, quote = true, r
		case unicode.IsSpace(r):
			if within {
				out, word, within = append(out, string(word)), nil, false
			}
		default:
			word, within = append(word, r), true
		}
	}
	if within {
		out = append(out, string(word))
	}
	return out
}

// serveOptions are those that it begins memtrace serve with, and said is how it says so; "" where it says nothing.
func (u *serviceUnit) serveOptions() (opt agent.Options, said string) {
	command := unitWords(strings.TrimLeft(u.last("ExecStart"), "@-:+!|"))
	at := slices.Index(command, "serve")
	if at < 0 {
		return opt, ""
	}
	var all []string
	for args := command[at+1:]; len(args) > 0; args = args[1:] {
		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		to := map[string]*string{"config": &opt.ConfigFile, "listen": &opt.Listen, "data": &opt.Data}[name]
		if to == nil || !strings.HasPrefix(args[0], "-") {
			continue
		}
		if !given {
			if len(args) == 1 {
				break
			}
			value, args = args[1], args[1:]
		}
		if to != &opt.Listen && !filepath.IsAbs(value) {
			value = filepath.Join("/", u.last("WorkingDirectory"), value)
		}
		*to = value
		all = append(all, "--"+name+" "+value)
	}
	return opt, strings.Join(all, " ")
}

func (u *serviceUnit) last(name string) string {
	if all := u.settings[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (u *serviceUnit) says(name string) bool {
	return slices.Contains([]string{"yes", "true", "1", "on"}, u.last(name))
}

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
		for _, c := range append(needed(), capability{bit: capSysAdmin, name: "CAP_SYS_ADMIN"}) {
			if strings.EqualFold(word, c.name) {
				bit = c.bit
			}
		}
		named |= 1 << bit
	}
	return named
}

// memory is the most that its processes may take together, 0 where nothing is said.
func (u *serviceUnit) memory() uint64 {
	text := u.last("MemoryMax")
	if share, ok := strings.CutSuffix(text, "%"); ok {
		part, err := strconv.ParseFloat(share, 64)
		var info unix.Sysinfo_t
		if err != nil || part >= 100 || unix.Sysinfo(&info) != nil {
			return 0
		}
		return uint64(part / 100 * float64(info.Totalram) * float64(info.Unit))
	}
	if strings.ContainsAny(text[max(0, len(text)-1):], "KMGT") { // powers of 1024 (systemd.resource-control(5))
		text += "iB"
	}
	n, err := threshold.ParseSize(text)
	if err != nil {
		return 0 // infinity
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
