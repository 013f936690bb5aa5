package matrix

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/memtrace/memtrace/procfs"
)

// shortLength is how many characters a short name has at most.
const shortLength = 8

// nameColumns gives each column a short name that no other has: for files the
// file's name without what follows ".so", for others the kernel's word.
func nameColumns(columns []Column) {
	taken := make(map[string]int, len(columns)) // name to the number tried last
	for i := range columns {
		short := shortName(columns[i].Kind, columns[i].Name)
		name := short
		for n := taken[short]; ; {
			if _, used := taken[name]; !used {
				taken[name] = 1
				break
			}
			n++
			suffix := "~" + strconv.Itoa(n)
			name = head(short, max(shortLength-len(suffix), 1)) + suffix
			taken[short] = n
		}
		columns[i].Short = name
	}
}

// shortName makes "libc" of "/usr/lib/x86_64-linux-gnu/libc.so.6". All but
// letters, digits and a few signs are left out.
func shortName(kind procfs.Kind, name string) string {
	name = strings.TrimSuffix(name, " (deleted)")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if kind != procfs.KindFile && kind != procfs.KindShmem {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
		name = strings.TrimPrefix(name, "anon:")
	}
	name = strings.TrimPrefix(name, "memfd:")
	if i := strings.Index(name, ".so"); i > 0 {
		name = name[:i]
	}
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("._+-", r) || r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, name)
	if name == "" {
		name = kind.String()
	}
	return head(name, shortLength)
}

// head is the first n bytes of an ASCII string.
func head(s string, n int) string { return s[:min(n, len(s))] }
