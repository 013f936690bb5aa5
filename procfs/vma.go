package procfs

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// VMA is one mapping of a process: a line of /proc/PID/maps and, from Smaps,
// its resident set.
type VMA struct {
	Start, End uint64 // End is the first address after the mapping
	Perms      Perms
	Kind       Kind
	Offset     uint64 // into the file
	DevMajor   uint32
	DevMinor   uint32
	Inode      uint64
	// Path is the file or the kernel's word in brackets, as the kernel wrote
	// it ("\012" for a newline, " (deleted)" appended where the file is gone).
	// It is valid until the callback that was given the VMA returns.
	Path []byte
	// Moved says that it is anonymous memory, with code that was moved there from the file that is given (Code).
	Moved bool
	// Memory and Flags are zero where the VMA comes from Maps.
	Memory
	Flags VMFlags
}

// Size is the length of the mapping in bytes.
func (v *VMA) Size() uint64 { return v.End - v.Start }

// FilePath is the path as it was given to the kernel, for opening and showing: without what the kernel writes behind
// that of a file that is gone, which Gone tells, and with newlines. For a mapping without a file it is Path. It is
// valid as Path is.
func (v *VMA) FilePath() []byte {
	if v.Inode == 0 {
		return v.Path
	}
	path := bytes.TrimSuffix(v.Path, suffixGone)
	if bytes.Contains(path, escapedNewline) {
		return bytes.ReplaceAll(path, escapedNewline, []byte{'\n'})
	}
	return path
}

// Gone reports whether the file was deleted.
func (v *VMA) Gone() bool { return v.Inode != 0 && bytes.HasSuffix(v.Path, suffixGone) }

// CodeSum is a number that changes when other files' code is mapped, or elsewhere.
type CodeSum uint64

// Add takes one mapping after the other.
func (s *CodeSum) Add(v *VMA) {
	if v.Perms&Exec != 0 && v.Inode != 0 && !v.Moved {
		*s = (*s ^ CodeSum(v.Inode^v.Start)) * 0x9e3779b97f4a7c15
	}
}

// Perms are the permissions of a mapping.
type Perms uint8

const (
	Read Perms = 1 << iota
	Write
	Exec
	Shared // MAP_SHARED; otherwise private, copied on write
)

// String returns them as /proc/PID/maps does, such as "rw-p".
func (p Perms) String() string {
	s := []byte("---p")
	for i, c := range []byte("rwxs") {
		if p&(1<<i) != 0 {
			s[i] = c
		}
	}
	return string(s)
}

// Kind says what backs a mapping.
type Kind uint8

const (
	// KindOther is a mapping of the kernel's own making that has no kind
	// below, such as [vsyscall] or [uprobes].
	KindOther Kind = iota
	// KindAnon is private anonymous memory, named by PR_SET_VMA_ANON_NAME
	// ("[anon:…]") or not: allocators' arenas, thread stacks, .bss.
	KindAnon
	// KindHeap is what brk(2) manages: "[heap]".
	KindHeap
	// KindStack is the first thread's stack: "[stack]".
	KindStack
	// KindFile is a file, mapped private or shared.
	KindFile
	// KindShmem is shared memory that swaps: memfd, System V, shared
	// anonymous mappings, files in /dev/shm. Files of other tmpfs mounts
	// cannot be told by their path and are KindFile.
	KindShmem
	// KindHugetlb is an anonymous mapping of preallocated huge pages, which
	// the kernel leaves out of every RSS.
	KindHugetlb
	// KindVDSO is [vdso] and [vvar…].
	KindVDSO
)

var kindNames = [...]string{"other", "anon", "heap", "stack", "file", "shmem", "hugetlb", "vdso"}

// String returns the kind's word, such as "anon".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "other"
}

// parseVMA parses a line of maps into v, apart from v.Path's bytes: it
// returns them as a part of line.
//
//	55d0c3a000-55d0c3b000 r-xp 00001000 fe:01 1234    /usr/bin/cat
func parseVMA(line []byte, v *VMA) ([]byte, error) {
	var ok [6]bool
	var major, minor uint64
	rest := line
	v.Start, rest, ok[0] = text.Hexadecimal(rest)
	v.End, rest, ok[1] = text.Hexadecimal(after(rest, '-'))
	rest, ok[2] = parsePerms(after(rest, ' '), &v.Perms)
	v.Offset, rest, ok[3] = text.Hexadecimal(after(rest, ' '))
	major, rest, ok[4] = text.Hexadecimal(after(rest, ' '))
	minor, rest, ok[5] = text.Hexadecimal(after(rest, ':'))
	inode, rest, okInode := text.Decimal(after(rest, ' '))
	if ok != [6]bool{true, true, true, true, true, true} || !okInode || v.End <= v.Start {
		return nil, fmt.Errorf("%w: mapping %.80q", ErrFormat, line)
	}
	v.DevMajor, v.DevMinor, v.Inode = uint32(major), uint32(minor), inode
	path := text.SkipBlanks(rest)
	v.Kind = kindOf(path, v)
	return path, nil
}

// after returns b past its first byte, which must be c; else nothing, in
// which no number is found.
func after(b []byte, c byte) []byte {
	if len(b) == 0 || b[0] != c {
		return nil
	}
	return b[1:]
}

func parsePerms(b []byte, p *Perms) ([]byte, bool) {
	if len(b) < 4 {
		return nil, false
	}
	*p = 0
	for i, c := range []byte("rwxs") {
		if b[i] == c {
			*p |= 1 << i
		}
	}
	return b[4:], true
}

var (
	prefixMemfd  = []byte("/memfd:")
	prefixSysV   = []byte("/SYSV")
	prefixShm    = []byte("/dev/shm/")
	prefixStack  = []byte("[stack")
	prefixVVar   = []byte("[vvar")
	prefixAnon   = []byte("[anon:")
	prefixShmem  = []byte("[anon_shmem:")
	suffixGone   = []byte(" (deleted)")
	sharedZeroes = []byte("/dev/zero")

	escapedNewline = []byte(`\012`)
)

// kindOf classifies a mapping by the name the kernel gives it
// (Documentation/filesystems/proc.rst, "maps").
func kindOf(path []byte, v *VMA) Kind {
	switch {
	case len(path) == 0:
		return KindAnon
	case path[0] == '[':
		return kindOfWord(path)
	case path[0] != '/':
		return KindFile // such as "anon_inode:[perf_event]", or a path that isn't reachable
	case bytes.HasPrefix(path, prefixShm), bytes.HasPrefix(path, prefixMemfd):
		return KindShmem
	case bytes.HasPrefix(path, prefixSysV) && bytes.HasSuffix(path, suffixGone):
		return KindShmem
	case bytes.HasPrefix(path, []byte("/anon_hugepage")):
		return KindHugetlb
	case bytes.HasPrefix(path, sharedZeroes):
		return kindOfZero(path[len(sharedZeroes):], v)
	}
	return KindFile
}

// kindOfZero classifies /dev/zero: shared, it is shmem (and "(deleted)", as
// every shared anonymous mapping is); private, it is plain anonymous memory.
func kindOfZero(rest []byte, v *VMA) Kind {
	switch {
	case len(rest) > 0 && !bytes.Equal(rest, suffixGone):
		return KindFile
	case v.Perms&Shared != 0:
		return KindShmem
	}
	return KindAnon
}

func kindOfWord(path []byte) Kind {
	switch {
	case string(path) == "[heap]":
		return KindHeap
	case bytes.HasPrefix(path, prefixStack): // [stack]; [stack:TID] up to Linux 4.4
		return KindStack
	case bytes.HasPrefix(path, prefixAnon):
		return KindAnon
	case bytes.HasPrefix(path, prefixShmem):
		return KindShmem
	case string(path) == "[vdso]", bytes.HasPrefix(path, prefixVVar):
		return KindVDSO
	}
	return KindOther
}
