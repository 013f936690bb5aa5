package probe

import (
	"bytes"
	"debug/elf"
	"slices"
	"strings"
)

// An allocator's file may have entry points that are not in functionTable, as
// allocators with arenas do. What they give out is not seen, while the frees of it are.
// Which arguments they take can't be told by their names: they are not probed,
// but named where frees match nothing.

// maxOthers bounds how many are remembered of a file.
const maxOthers = 32

// addOther records a function that others may call and whose name sounds like an allocation.
func (s *symbols) addOther(name []byte, raw rawSymbol) {
	if len(s.others) >= maxOthers || elf.ST_BIND(raw.info) == elf.STB_LOCAL || !soundsAllocating(name) || wanted[string(name)] {
		return
	}
	s.others = append(s.others, symbol{function: function{name: string(name)}, addr: raw.value, size: raw.size})
}

// notAllocating are parts of names of functions that tell of blocks, or of their end.
var notAllocating = []string{"dealloc", "free", "usable", "size", "stat", "info", "trim", "state", "hook", "init", "allocator", "enclosing", "fork"}

// soundsAllocating goes by the names of C: mangled ones are of methods with an
// object for an argument.
func soundsAllocating(name []byte) bool {
	if !bytes.Contains(name, []byte("alloc")) && !bytes.Contains(name, []byte("memalign")) || bytes.HasPrefix(name, []byte("_Z")) || bytes.HasPrefix(name, []byte("_R")) {
		return false
	}
	return !slices.ContainsFunc(notAllocating, func(part string) bool { return bytes.Contains(name, []byte(part)) })
}

// otherEntries names those of a file with an allocator of its own. The C library's are
// all known. What does nothing but jump to a probed function is seen there.
func (im *image) otherEntries(o *Object, known entries, others []symbol) (names []string) {
	if o.Family == Glibc || o.Family == Musl || o.Family == User || len(known) == 0 {
		return nil
	}
	for _, s := range others {
		_, probed := known[im.resolve(s.addr, known)]
		passed := slices.ContainsFunc(o.Skipped, func(k Skip) bool { return k.Name == s.name })
		if !probed && !passed && im.segment(s.addr) != nil && !strings.HasPrefix(s.name, "__") {
			names = append(names, s.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
