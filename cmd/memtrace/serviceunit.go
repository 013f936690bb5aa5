//go:build linux && !viewer

package main

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/threshold"
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

// read takes the settings of a file. An empty one takes back what was set before.
func (u *serviceUnit) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		switch {
		case !ok || strings.HasPrefix(name, "#") || strings.HasPrefix(name, ";"):
		case value == "":
			delete(u.settings, name)
		default:
			u.settings[name] = append(u.settings[name], value)
		}
	}
	return nil
}

func (u *serviceUnit) last(name string) string {
	if all := u.settings[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// ownUser reports whether it runs as another user than root.
func (u *serviceUnit) ownUser() bool {
	user := u.last("User")
	return slices.Contains([]string{"yes", "true", "1", "on"}, u.last("DynamicUser")) || user != "" && user != "root" &&
		user != "0"
}

// capabilities are those that its processes have.
func (u *serviceUnit) capabilities() uint64 {
	bounding, bounded := u.settings["CapabilityBoundingSet"]
	if u.ownUser() {
		return capabilityBits(u.settings["AmbientCapabilities"])
	}
	if !bounded {
		return ^uint64(0)
	}
	return capabilityBits(bounding)
}

// capabilityBits are the capabilities that memtrace knows of those that are listed; all but those, behind a ~.
func capabilityBits(lists []string) (set uint64) {
	for _, list := range lists {
		without := strings.HasPrefix(list, "~")
		var named uint64
		for _, word := range strings.Fields(strings.TrimPrefix(list, "~")) {
			for _, c := range append(needed(), capability{bit: capSysAdmin, name: "CAP_SYS_ADMIN"}) {
				if strings.EqualFold(word, c.name) {
					named |= 1 << c.bit
				}
			}
		}
		if without {
			set |= ^named
		} else {
			set |= named
		}
	}
	return set
}

// memory is the most that its processes may take together, 0 where nothing is said.
func (u *serviceUnit) memory() uint64 {
	text := u.last("MemoryMax")
	if strings.ContainsAny(text[max(0, len(text)-1):], "KMGT") { // powers of 1024 (systemd.resource-control(5))
		text += "iB"
	}
	n, err := threshold.ParseSize(text)
	if err != nil {
		return 0 // infinity, or a share of the machine's
	}
	return n
}

// makes reports whether systemd makes a folder for it.
func (u *serviceUnit) makes(folder string) bool {
	for _, list := range u.settings["StateDirectory"] {
		for name := range strings.FieldsSeq(list) {
			if filepath.Join("/var/lib", name) == folder {
				return true
			}
		}
	}
	return false
}
