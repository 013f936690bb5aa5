package analyzer

import (
	"path"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// anywhere matches LeakSanitizer's pattern with a frame: with the name of its
// function, demangled and as it is in the file, of its source or of its module.
func (p *suppression) anywhere(f Frame) bool {
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
// for any number of them. Its first line may name the allocator, which our
// stacks leave out where the caller called it directly.
func matchFrames(lines []string, stack []Frame) bool {
	if matchAll(lines, stack) {
		return true
	}
	return len(lines) > 1 && meansAllocator(lines[0]) && matchAll(lines[1:], stack)
}

// meansAllocator reports whether a line may stand for malloc and the like: by
// its name, any name, or the file in which Valgrind has its own.
func meansAllocator(line string) bool {
	kind, pattern, _ := strings.Cut(line, ":")
	switch kind {
	case "fun":
		return pattern == "*" || isAllocator(demangled(pattern)) || strings.Contains(pattern, "alloc") || strings.Contains(pattern, "memalign")
	case "obj":
		return strings.Contains(pattern, "vgpreload")
	}
	return false
}

// demangled returns a mangled name as it is written without parameters.
func demangled(name string) string {
	return demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams)
}

func matchAll(lines []string, stack []Frame) bool {
	star, from := -1, 0
	l, s := 0, 0
	for l < len(lines) {
		switch {
		case lines[l] == "...":
			star, from = l, s
			l++
		case s < len(stack) && matchLine(lines[l], &stack[s]):
			l++
			s++
		case star >= 0 && from < len(stack):
			from++
			l, s = star+1, from
		default:
			return false
		}
	}
	return true
}

func matchLine(line string, f *Frame) bool {
	kind, pattern, _ := strings.Cut(line, ":")
	switch kind {
	case "fun":
		return matchFunction(pattern, f)
	case "obj":
		return matchStars(pattern, f.Module)
	}
	return matchStars(pattern, f.File) || matchStars(pattern, path.Base(f.File))
}

// matchFunction matches a name as the file has it, as it is demangled, or as it
// is demangled without parameters.
func matchFunction(pattern string, f *Frame) bool {
	if pattern == "*" {
		return true
	}
	if f.Nameless() {
		return false // an address is no name
	}
	if matchStars(pattern, f.Function) || f.Mangled != "" && (matchStars(pattern, f.Mangled) || matchStars(pattern, demangled(f.Mangled))) {
		return true
	}
	// Where only DWARF names it, as for inlined functions, there is no mangled name.
	return strings.HasPrefix(pattern, "_") && matchStars(demangled(pattern), f.Function)
}
