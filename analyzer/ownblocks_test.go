package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// TestBlocksOfTheAllocator: what tcmalloc loses as it starts is no leak of the
// program's; what a constructor or a program loses by way of it is.
func TestBlocksOfTheAllocator(t *testing.T) {
	const tcmalloc, loader = "/usr/lib/libtcmalloc_minimal.so.4", "/lib/ld-linux-x86-64.so.2"
	frames := func(names ...string) (out []*report.Frame) {
		for i := 0; i < len(names); i += 2 {
			out = append(out, &report.Frame{Function: names[i], Module: names[i+1]})
		}
		return out
	}
	for name, c := range map[string]struct {
		stack []*report.Frame
		want  bool
	}{
		"its constructor":       {frames("operator new(unsigned long)", tcmalloc, "0x1b39a", tcmalloc, "call_init", loader), true},
		"linked into a program": {frames("MallocExtension::Register(MallocExtension*)", "/bin/p", "call_init", "/lib/libc.so.6"), true},
		"a program":             {frames("malloc", tcmalloc, "main", "/bin/p"), false},
		"by way of it":          {frames("tc_new", tcmalloc, "main", "/bin/p"), false},
		"another constructor":   {frames("malloc", tcmalloc, "0x10", "/lib/libfoo.so", "call_init", loader), false},
		"its free":              {frames("0x1b39a", tcmalloc, "tc_delete_sized", tcmalloc, "main", "/bin/p"), true},
		"its operator delete": {
			frames("tc_new", tcmalloc, "0x10", tcmalloc, "operator delete(void*)", tcmalloc, "main", "/bin/p"), true,
		},
		"a program's hook on free": {frames("hook", "/bin/p", "0x1b39a", tcmalloc, "tc_free", tcmalloc, "main", "/bin/p"), false},
		"a program's own free":     {frames("0x10", tcmalloc, "free", "/bin/p", "main", "/bin/p"), false},
		"its realloc":              {frames("0x1b39a", tcmalloc, "tc_realloc", tcmalloc, "main", "/bin/p"), false},
		"no stack":                 {nil, false},
	} {
		if got := ofAllocator(c.stack, allocatorFiles([]string{"glibc /lib/libc.so.6", "tcmalloc " + tcmalloc, "jemalloc /bin/p"})); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAllocatorFiles: a program or library that has an allocator within is not all of it the allocator's.
func TestAllocatorFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"jemalloc /usr/lib/libjemalloc.so.2": true, "tcmalloc /usr/lib/libtcmalloc_minimal.so.4": true,
		"mimalloc /usr/lib/libmimalloc-secure.so.2.0": true, "scudo /usr/lib/libclang_rt.scudo_standalone-x86_64.so": true,
		"rust /usr/lib/librustls.so": false, "user /opt/libuserdb.so": false, "glibc /lib/libc.so.6": false, "scudo /bin/scudo_bench": false,
		"jemalloc /opt/libjemallocated.so": false, "jemalloc /bin/p": false,
	} {
		if got := len(allocatorFiles([]string{name})) > 0; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
