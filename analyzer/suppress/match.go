package suppress

import (
	"path"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// anywhere matches LeakSanitizer's pattern with a frame: with the name of its
// function, demangled and as it is in the file, of its source or of its module.
func (p *suppression) anywhere(f *report.Frame) bool {
	for _, name := range []string{f.Function, f.Mangled, f.File, f.Module} {
		if matchTemplate(p.any, name) {
			return true
		}
	}
	return false
}

// matchTemplate matches as LeakSanitizer does: the pattern is a part of the
// name, ^ and $ are its ends, and * is anything. Each piece between stars is
// looked for where it first occurs, and $ holds only there, so that "oo$" is
// no match for "foofoo": a file must mean the same to both tools.
func matchTemplate(pattern, name string) bool {
	if name == "" {
		return false
	}
	pattern, first := strings.CutPrefix(pattern, "^")
	star := false
	for pattern != "" {
		switch pattern[0] {
		case '*':
			pattern, first, star = pattern[1:], false, true
			continue
		case '$':
			return name == "" || star
		}
		end := strings.IndexAny(pattern, "*$")
		if end < 0 {
			end = len(pattern)
		}
		at := strings.Index(name, pattern[:end])
		if at < 0 || first && at > 0 {
			return false
		}
		name, pattern = name[at+end:], pattern[end:]
		first, star = false, false
	}
	return true
}

// matchStars matches * with any characters, ? with one, as Valgrind does.
func matchStars(pattern, name string) bool {
	star, from := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchFrames matches Valgrind's lines with the innermost frames; "..." stands
// for any number of them. Valgrind's stacks begin with its own malloc, calloc or
// operator new. Ours begin with their caller, or with what operator new is made
// of, so that all of that is taken for one frame, which a line matches by the
// name of any such function. (Of memalign, posix_memalign makes two frames there.)
func (n *names) matchFrames(lines []string, stack []*report.Frame) bool {
	if len(lines) > 1 && lines[0] == "fun:memalign" && lines[1] == "fun:posix_memalign" {
		lines = lines[1:]
	}
	inner := entryFrames(stack)
	return matchAll(lines, 1+len(stack)-inner, func(line string, i int) bool {
		if i == 0 {
			return matchEntry(line, inner > 0)
		}
		return n.matchLine(line, stack[inner+i-1])
	})
}

// entryFrames counts the innermost frames that Valgrind's stacks do not have.
func entryFrames(stack []*report.Frame) (n int) {
	for n < len(stack) && (entryNames[stack[n].Function] || strings.HasPrefix(stack[n].Function, "operator new")) {
		n++
	}
	return n
}

var entryNames = map[string]bool{
	"malloc": true, "calloc": true, "realloc": true, "reallocarray": true, "memalign": true,
	"posix_memalign": true, "aligned_alloc": true, "valloc": true, "pvalloc": true,
}

// newNames are operators new as Valgrind names them, and as people do.
var newNames = []string{
	"_Znwm", "_Znam", "_Znwj", "_Znaj", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
	"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t", "operator new", "operator new(unsigned long)", "operator new[](unsigned long)",
}

// valgrindMalloc is the file in which Valgrind has its allocators.
const valgrindMalloc = "/usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so"

// matchEntry matches a line with the function that was called to allocate. It
// is known to be operator new where that is in the stack.
func matchEntry(line string, isNew bool) bool {
	kind, pattern, _ := strings.Cut(line, ":")
	if kind == "obj" {
		return matchStars(pattern, valgrindMalloc)
	}
	if kind != "fun" {
		return false
	}
	for _, name := range newNames {
		if matchStars(pattern, name) {
			return true
		}
	}
	for name := range entryNames {
		if !isNew && matchStars(pattern, name) {
			return true
		}
	}
	return false
}

// matchAll matches lines with the first of n frames, by a function of a line and
// the number of a frame.
func matchAll(lines []string, n int, match func(line string, i int) bool) bool {
	star, from := -1, 0
	l, s := 0, 0
	for l < len(lines) {
		switch {
		case lines[l] == "...":
			star, from = l, s
			l++
		case s < n && match(lines[l], s):
			l++
			s++
		case star >= 0 && from < n:
			from++
			l, s = star+1, from
		default:
			return false
		}
	}
	return true
}

func (n *names) matchLine(line string, f *report.Frame) bool {
	kind, pattern, _ := strings.Cut(line, ":")
	switch kind {
	case "fun":
		return n.matchFunction(pattern, f)
	case "obj":
		return matchStars(pattern, f.Module)
	}
	return matchStars(pattern, f.File) || matchStars(pattern, path.Base(f.File))
}

// matchFunction matches a name as the file has it, as it is demangled, or as it
// is demangled without parameters.
func (n *names) matchFunction(pattern string, f *report.Frame) bool {
	if pattern == "*" {
		return true
	}
	if f.Nameless() {
		return false // an address is no name
	}
	if matchStars(pattern, f.Function) || f.Mangled != "" && (matchStars(pattern, f.Mangled) || matchStars(pattern, n.short(f.Mangled))) {
		return true
	}
	// Where only DWARF names it, as for inlined functions, there is no mangled name.
	// A star that comes of demangling, as in operator*, is no wildcard.
	return strings.HasPrefix(pattern, "_") && n.short(pattern) == f.Function
}
