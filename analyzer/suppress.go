package analyzer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Suppressions are leaks that are known and not to be reported, as
// LeakSanitizer's and Valgrind's files name them. Both kinds may stand in one
// file.
//
//	leak:PATTERN                 a function, file or module of the stack
//
//	{                            Valgrind; blocks of other kinds are passed over
//	   name
//	   Memcheck:Leak
//	   match-leak-kinds: definite,indirect
//	   fun:malloc
//	   ...
//	   obj:*/libfoo.so*
//	}
type Suppressions struct{ all []suppression }

type suppression struct {
	name   string
	kinds  []string // that it is for; nil: all
	any    string   // LeakSanitizer's pattern, or
	frames []string // Valgrind's lines, innermost frame first
	used   bool
}

// maxSuppressions bounds what a file can hold.
const maxSuppressions = 1 << 16

// ParseSuppressions reads a file.
func ParseSuppressions(r io.Reader) (*Suppressions, error) {
	s := &Suppressions{}
	lines, number := bufio.NewScanner(r), 0
	next := func() (string, bool) {
		for lines.Scan() {
			number++
			if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
				return line, true
			}
		}
		return "", false
	}
	for line, ok := next(); ok; line, ok = next() {
		pattern, isLeak := strings.CutPrefix(line, "leak:")
		switch {
		case len(s.all) == maxSuppressions:
			return nil, fmt.Errorf("line %d: more than %d suppressions", number, maxSuppressions)
		case isLeak && pattern != "":
			s.all = append(s.all, suppression{name: line, any: pattern})
		case line == "{":
			if err := s.block(next); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
		default:
			return nil, fmt.Errorf("line %d: %q is neither leak:PATTERN nor the { of a Valgrind suppression", number, line)
		}
	}
	return s, lines.Err()
}

// block reads a Valgrind suppression after its brace.
func (s *Suppressions) block(next func() (string, bool)) error {
	name, _ := next()
	kind, ok := next()
	out, leak := suppression{name: name}, strings.HasPrefix(kind, "Memcheck:Leak")
	for ok {
		var line string
		if line, ok = next(); !ok || line == "}" {
			break
		}
		kinds, isKinds := strings.CutPrefix(line, "match-leak-kinds:")
		switch {
		case isKinds && strings.TrimSpace(kinds) != "all":
			for k := range strings.SplitSeq(kinds, ",") {
				out.kinds = append(out.kinds, strings.TrimSpace(k))
			}
		case isKinds:
		case line == "...", strings.HasPrefix(line, "fun:"), strings.HasPrefix(line, "obj:"), strings.HasPrefix(line, "src:"):
			out.frames = append(out.frames, line)
		case leak:
			return fmt.Errorf("%q in the suppression %q is neither fun:, obj:, src: nor ... for any frames", line, name)
		}
	}
	switch {
	case !ok:
		return errors.New("a Valgrind suppression has no closing brace")
	case leak && len(out.frames) == 0:
		return fmt.Errorf("the suppression %q names no function", name)
	case leak:
		s.all = append(s.all, out)
	}
	return nil
}

// Apply takes the suppressed leaks out of a Report whose stacks are named, and
// says in its warnings how many those were.
func (s *Suppressions) Apply(r *Report) {
	stacks := make(map[int][]Frame, len(r.Sites))
	for i := range r.Sites {
		stacks[r.Sites[i].ID] = r.Sites[i].Stack
	}
	var count, bytes uint64
	r.Leaks = slices.DeleteFunc(r.Leaks, func(l Leak) bool {
		if !s.matches(l.Kind, stacks[l.Site]) {
			return false
		}
		count += l.Count
		bytes += l.Bytes
		return true
	})
	if count > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d leaked blocks of %s are suppressed", count, humanBytes(float64(bytes))))
	}
}

// Unused names the suppressions that no leak has matched.
func (s *Suppressions) Unused() (names []string) {
	for i := range s.all {
		if !s.all[i].used {
			names = append(names, s.all[i].name)
		}
	}
	return names
}

func (s *Suppressions) matches(kind string, stack []Frame) bool {
	for i := range s.all {
		p := &s.all[i]
		if p.kinds != nil && !slices.Contains(p.kinds, kind) {
			continue
		}
		if p.any != "" && slices.ContainsFunc(stack, p.anywhere) || p.frames != nil && matchFrames(p.frames, stack) {
			p.used = true
			return true
		}
	}
	return false
}

// anywhere matches LeakSanitizer's pattern with a frame: a part of a name, with
// * for any characters, ^ and $ for the ends.
func (p *suppression) anywhere(f Frame) bool {
	for _, name := range []string{f.Function, f.File, f.Module} {
		if name != "" && matchPart(p.any, name) {
			return true
		}
	}
	return false
}

func matchPart(pattern, name string) bool {
	pattern, first := strings.CutPrefix(pattern, "^")
	pattern, last := strings.CutSuffix(pattern, "$")
	if !first {
		pattern = "*" + pattern
	}
	if !last {
		pattern += "*"
	}
	return matchStars(pattern, name)
}

// matchStars matches * with any characters, ? with one.
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
// stacks may leave out.
func matchFrames(lines []string, stack []Frame) bool {
	if matchAll(lines, stack) {
		return true
	}
	name, isFun := strings.CutPrefix(lines[0], "fun:")
	allocates := isFun && (isAllocator(demangled(name)) || strings.Contains(name, "alloc"))
	return allocates && len(lines) > 1 && matchAll(lines[1:], stack)
}

// demangled returns a mangled name as our stacks write it.
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
		case s < len(stack) && matchLine(lines[l], stack[s]):
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

func matchLine(line string, f Frame) bool {
	kind, pattern, _ := strings.Cut(line, ":")
	switch kind {
	case "fun":
		return matchStars(pattern, f.Function) || matchStars(demangled(pattern), f.Function)
	case "obj":
		return matchStars(pattern, f.Module)
	}
	return matchStars(pattern, f.File) || matchStars(pattern, path.Base(f.File))
}
