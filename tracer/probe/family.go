package probe

import "strings"

// Family names whose allocator an object contains.
type Family string

const (
	Glibc         Family = "glibc"
	Jemalloc      Family = "jemalloc"
	Tcmalloc      Family = "tcmalloc"
	Mimalloc      Family = "mimalloc"
	Musl          Family = "musl"
	Scudo         Family = "scudo"
	Rust          Family = "rust" // an allocator of a Rust program's own
	User          Family = "user" // functions that the user named
	FamilyUnknown Family = "unknown"
)

// Families lists the families that may be chosen.
func Families() []Family { return []Family{Glibc, Musl, Jemalloc, Tcmalloc, Mimalloc, Scudo, Rust} }

// familyMarks are symbols that only one family defines. Order matters: a
// static program may contain an allocator and, beside it, the C library whose
// own it replaces. Where prefixed is given the mark tells of an allocator that
// may stand beside another, unless that is where malloc leads to.
var familyMarks = []struct {
	symbol   string
	prefixed string
	family   Family
}{
	{"mallctl", "", Jemalloc},
	{"MallocExtension_GetNumericProperty", "", Tcmalloc},
	{"tc_malloc", "tc_malloc", Tcmalloc},
	{"mi_version", "mi_malloc", Mimalloc},
	{"__scudo_print_stats", "", Scudo},
	{"gnu_get_libc_version", "", Glibc},
	{"__libc_memalign", "", Glibc}, // static programs; see stands
	{"__libc_malloc_impl", "", Musl},
}

// prefixFamilies are those whose names have a prefix.
var prefixFamilies = map[string]Family{"je_": Jemalloc, "_rjem_": Jemalloc, "mi_": Mimalloc, "tc_": Tcmalloc, "rp": FamilyUnknown}

// libcMark is defined by every C library and by nothing else.
const libcMark = "__libc_start_main"

// setFamilies tells each function's family.
func (s *symbols) setFamilies(soname string) {
	for i := range s.found {
		s.found[i].family = s.family(s.found[i].prefix, soname)
		if s.found[i].group == groupRust {
			s.found[i].family = Rust
		}
	}
}

// ownFamily is that of the file's malloc, or, where it has none, of what it has.
func (s *symbols) ownFamily(soname string) Family {
	switch {
	case s.has(""):
		return s.family("", soname)
	case len(s.found) > 0:
		return s.found[0].family
	}
	return User
}

// family decides whose the functions with a prefix are.
func (s *symbols) family(prefix, soname string) Family {
	if family, ok := prefixFamilies[prefix]; ok {
		return family
	}
	for _, mark := range familyMarks {
		if s.defined[mark.symbol] != 0 && s.stands(mark.symbol, mark.prefixed) {
			return mark.family
		}
	}
	if strings.Contains(soname, "musl") || s.defined[libcMark] != 0 {
		return Musl
	}
	return FamilyUnknown
}

// stands tells the C library from allocators that define its aliases of malloc
// too, as Chromium's does, and allocators beside it from those in its place.
func (s *symbols) stands(mark, prefixed string) bool {
	switch {
	case mark == "__libc_memalign":
		return s.defined[libcMark] != 0
	case prefixed != "":
		return s.defined[libcMark] == 0 || s.defined[prefixed] == s.defined["malloc"]
	}
	return true
}

// bringsOperatorNew says whether the family's operator new allocates by
// itself instead of calling malloc.
func (f Family) bringsOperatorNew() bool {
	return f != Glibc && f != Musl
}
