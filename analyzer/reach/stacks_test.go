package reach

import (
	"testing"

	"github.com/memtrace/memtrace/procfs"
)

// TestStacksOfThreads has mappings as glibc 2.36 makes them of threads' stacks, and Linux 5.10 joins them.
func TestStacksOfThreads(t *testing.T) {
	const (
		start, size = 0x7f2b22dfb000, 8 << 20
		end         = uint64(start + size)
		pointer     = end - 0x940
		sp          = end - 0x2160
		page        = 4096
	)
	for name, c := range map[string]struct {
		guard, from, to uint64
		pointer         uint64
		perms           procfs.Perms
		want            bool
	}{
		"guard beside it":                      {guard: start - page, from: start, to: end, want: true},
		"guard within, before 2.27":            {guard: start, from: start + page, to: end, want: true},
		"joined":                               {guard: start - page, from: start, to: end + 64<<10, pointer: pointer, want: true},
		"joined, guard within":                 {guard: start, from: start + page, to: end + 64<<10, pointer: pointer, want: true},
		"joined, its end is not known":         {guard: start - page, from: start, to: end + 64<<10},
		"on memory of a coroutine":             {guard: start - page, from: start, to: end + 64<<10, pointer: end + 1<<30},
		"on a part of what the program mapped": {guard: start - page, from: start, to: end + 64<<10, pointer: end - 4<<20},
		"of another size":                      {guard: start - page, from: start, to: end - 2*page, pointer: pointer - 2*page},
		"no guard":                             {guard: start - page, from: start, to: end, pointer: pointer, perms: procfs.Read},
		"something large below":                {guard: start - 2*maxGuard, from: start, to: end, pointer: pointer},
	} {
		t.Run(name, func(t *testing.T) {
			s := space{maps: []vma{
				{start: c.guard, end: c.from, kind: procfs.KindAnon, perms: c.perms},
				{start: c.from, end: c.to, kind: procfs.KindAnon, perms: procfs.Read | procfs.Write, read: true},
			}}
			thread := &Thread{SP: sp, local: c.pointer}
			z, ok := s.deadPart(thread, size)
			if want := (zone{c.from, sp - redZone}); ok != c.want || ok && z != want {
				t.Errorf("%v, dead is %#x, want %v, %#x", ok, z, c.want, want)
			}
		})
	}
}
