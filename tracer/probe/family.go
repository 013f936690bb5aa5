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
	FamilyUnknown Family = "unknown"
)

// familyMarks are symbols that only one family defines. Order matters: a
// static program may contain an allocator and, beside it, the C library whose
// own it replaces.
var familyMarks = []struct {
	symbol string
	family Family
}{
	{"mallctl", Jemalloc},
	{"je_mallctl", Jemalloc},
	{"_rjem_mallctl", Jemalloc},
	{"tc_malloc", Tcmalloc},
	{"MallocExtension_GetNumericProperty", Tcmalloc},
	{"mi_version", Mimalloc},
	{"mi_malloc", Mimalloc},
	{"gnu_get_libc_version", Glibc},
	{"__libc_memalign", Glibc}, // static programs; see stands
	{"__libc_malloc_impl", Musl},
}

// libcMark is defined by every C library and by nothing else.
const libcMark = "__libc_start_main"

// familyOf decides from the defined symbols and the soname.
func familyOf(defined map[string]bool, soname string) Family {
	for _, mark := range familyMarks {
		if defined[mark.symbol] && stands(mark.symbol, defined) {
			return mark.family
		}
	}
	if strings.Contains(soname, "musl") || defined[libcMark] {
		return Musl
	}
	return FamilyUnknown
}

// bringsOperatorNew says whether the family's operator new allocates by
// itself instead of calling malloc.
func (f Family) bringsOperatorNew() bool {
	return f != Glibc && f != Musl
}

// stands tells the C library from allocators that define its aliases of malloc
// too, as Chromium's does.
func stands(mark string, defined map[string]bool) bool {
	return mark != "__libc_memalign" || defined[libcMark]
}
