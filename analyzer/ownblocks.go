package analyzer

import (
	"path"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// dropOwnBlocks takes what an allocator lost of its own out of a Report's leaks:
// tcmalloc makes an object as it starts, and another in its place. The program
// can do nothing about it. Stacks must be named.
func dropOwnBlocks(r *report.Report) {
	if len(r.Leaks) == 0 {
		return
	}
	files := make(map[int][]string) // of allocators, by Process.ID
	for i := range r.Processes {
		files[r.Processes[i].ID] = allocatorFiles(r.Processes[i].Allocators)
	}
	sites := r.SiteIndex()
	r.Leaks = slices.DeleteFunc(r.Leaks, func(l report.Leak) bool {
		site := sites[l.Site]
		return site != nil && report.IsVerdict(l.Kind) && ofAllocator(site.Frames(), files[l.Process])
	})
}

// allocatorFiles are the files that hold nothing but an allocator.
func allocatorFiles(allocators []string) (out []string) {
	for _, name := range allocators {
		family, file, _ := strings.Cut(name, " ")
		if isAllocatorFile(family, path.Base(file)) {
			out = append(out, file)
		}
	}
	return out
}

// isAllocatorFile goes by the names under which allocators are distributed, such as
// libmimalloc-secure.so.2. A program may have an allocator within, and its name in its own.
func isAllocatorFile(family, base string) bool {
	switch family {
	case "jemalloc", "tcmalloc", "mimalloc":
		rest, ok := strings.CutPrefix(base, "lib"+family)
		return ok && rest != "" && strings.ContainsRune(".-_", rune(rest[0])) && strings.Contains(rest, ".so")
	case "scudo":
		return strings.HasPrefix(base, "lib") && strings.Contains(base, "scudo") && strings.Contains(base, ".so")
	}
	return false
}

// ofAllocator reports whether a block was allocated by an allocator itself, with
// no frame of anything else but the loader; or, where it is linked into the
// program, by the one function that is known to.
func ofAllocator(stack []*report.Frame, files []string) bool {
	if inRelease(stack, files) {
		return true
	}
	stack = slices.DeleteFunc(slices.Clone(stack), func(f *report.Frame) bool { return report.IsAllocator(f.Function) })
	if len(stack) == 0 {
		return false
	}
	if strings.HasPrefix(stack[0].Function, "MallocExtension::Register(") {
		return true
	}
	return slices.Contains(files, stack[0].Module) && !slices.ContainsFunc(stack, func(f *report.Frame) bool {
		return !slices.Contains(files, f.Module) && !isLoader(f.Module)
	})
}

// inRelease reports whether an allocator allocated a block for itself as it was given another one back, with no frame
// of anything else in between: tcmalloc's debugging library keeps what is freed in a queue that it makes at the first
// free. Who frees gets no block.
func inRelease(stack []*report.Frame, files []string) bool {
	for _, f := range stack {
		if !slices.Contains(files, f.Module) {
			return false
		}
		if isRelease(f.Function) {
			return true
		}
	}
	return false
}

// isRelease tells the functions of allocators that take blocks back, and hand out none.
func isRelease(function string) bool {
	if slices.Contains([]string{"free", "cfree", "free_sized", "free_aligned_sized", "dallocx", "sdallocx"}, function) {
		return true
	}
	prefixes := []string{"operator delete", "tc_free", "tc_cfree", "tc_delete", "mi_free"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// isLoader tells the file that loads programs, and runs the constructors of libraries.
func isLoader(file string) bool {
	base := path.Base(file)
	return strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld-musl") || strings.HasPrefix(base, "ld.so") ||
		strings.HasPrefix(base, "ld-2.")
}
