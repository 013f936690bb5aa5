package debugfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"path"
	"strings"
)

// Dirs are where distributions keep debug files (GDB manual, "Separate Debug
// Files").
var Dirs = []string{"/usr/lib/debug"}

// BuildIDNames lists the paths that the debug file of a build ID may have; id
// is hexadecimal.
func BuildIDNames(dirs []string, id string) []string {
	if len(id) < 4 {
		return nil
	}
	var names []string
	for _, dir := range dirs {
		names = append(names, path.Join(dir, ".build-id", id[:2], id[2:]+".debug"))
	}
	return names
}

// LinkNames lists the paths at which gdb looks for the file that .gnu_debuglink
// names in the file at modulePath. Those beside the module are left out unless
// beside is set.
func LinkNames(dirs []string, modulePath, link string, beside bool) (names []string) {
	if link == "" || link == "." || link == ".." || strings.Contains(link, "/") || !path.IsAbs(modulePath) {
		return nil
	}
	dir := path.Dir(modulePath)
	if beside {
		names = append(names, path.Join(dir, link), path.Join(dir, ".debug", link))
	}
	for _, debugDir := range dirs {
		names = append(names, path.Join(debugDir, dir, link))
	}
	return names
}

// ParseLink reads the section .gnu_debuglink: the name of the debug file and
// its CRC-32.
func ParseLink(section []byte, order binary.ByteOrder) (name string, crc uint32, ok bool) {
	end := bytes.IndexByte(section, 0)
	at := (end + 4) &^ 3
	if end <= 0 || at+4 > len(section) {
		return "", 0, false
	}
	return string(section[:end]), order.Uint32(section[at:]), true
}

// MaxBuildID is the longest build ID taken, in bytes; SHA-1 has 20.
const MaxBuildID = 64

// BuildID looks for NT_GNU_BUILD_ID (3) of owner "GNU" among ELF notes. It
// answers in hexadecimal, or "".
func BuildID(notes []byte, order binary.ByteOrder) string {
	const header, ntBuildID = 12, 3
	for len(notes) >= header {
		nameSize, descSize := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:]))
		kind := order.Uint32(notes[8:])
		desc := header + (nameSize+3)&^3
		next := desc + (descSize+3)&^3
		if desc+descSize > uint64(len(notes)) {
			return ""
		}
		if kind == ntBuildID && string(notes[header:header+nameSize]) == "GNU\x00" && descSize <= MaxBuildID {
			return hex.EncodeToString(notes[desc : desc+descSize])
		}
		notes = notes[min(next, uint64(len(notes))):]
	}
	return ""
}
