package analyzer

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// SuppressionStyle is the tool whose format is written. memtrace reads both.
type SuppressionStyle string

const (
	ValgrindStyle SuppressionStyle = "valgrind"
	LSanStyle     SuppressionStyle = "lsan" // LeakSanitizer's
)

// WriteSuppressions writes what suppresses the given leaks of a Report (indexes
// into Leaks) from the next run on: in Valgrind's format each call stack, in
// LeakSanitizer's, which knows no stacks, each site's function. Leaks without a
// stack are named in a comment.
func WriteSuppressions(w io.Writer, r *Report, leaks []int, style SuppressionStyle) error {
	var out strings.Builder
	out.WriteString("# Suppressions of memory leaks, written by memtrace.\n")
	sites, seen := r.siteIndex(), make(map[string]bool)
	for _, i := range leaks {
		l := &r.Leaks[i]
		text := ""
		if site := sites[l.Site]; site != nil && len(site.Stack) > 0 && style == LSanStyle {
			text = lsanSuppression(site)
		} else if site != nil {
			text = valgrindSuppression(l, site)
		}
		if text == "" {
			text = fmt.Sprintf("# %s leak of %d bytes: no function is known of its stack\n", oneLine(l.Kind), l.Bytes)
		}
		if !seen[text] {
			seen[text] = true
			out.WriteString(text)
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write suppressions: %w", err)
	}
	return nil
}

// oneLine keeps a name from becoming lines, or anything but a name.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// maxSuppressed is the length of a suppression: Valgrind by default remembers
// twelve frames of a stack, and a longer one would match nothing.
const maxSuppressed = 12

// valgrindSuppression names the frames up to main.
func valgrindSuppression(l *Leak, s *Site) string {
	lines, inner := []string{"fun:*"}, entryFrames(s.Stack) // malloc, or whichever of its like
	if inner > 0 {
		lines[0] = "fun:_Zn*"
	}
	named := false
	for i := inner; i < len(s.Stack); i++ {
		f := s.Stack[i]
		if f.inLibc() && !f.startsSomething(s.Stack[i:]) || len(lines) == maxSuppressed {
			break
		}
		line := f.suppression()
		named = named || line != "fun:*" && !f.Inlined && !isAllocator(f.Function)
		lines = append(lines, line)
		if f.Function == "main" {
			break
		}
	}
	if !named {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "{\n   %s leak in %s\n   Memcheck:Leak\n", oneLine(l.Kind), oneLine(s.Function))
	if IsVerdict(l.Kind) {
		fmt.Fprintf(&out, "   match-leak-kinds: %s\n", l.Kind)
	}
	for _, line := range lines {
		fmt.Fprintf(&out, "   %s\n", line)
	}
	out.WriteString("}\n")
	return out.String()
}

// startsSomething reports whether code of the C library's in a stack has been
// called by code that is not: strdup, qsort, but not what calls main.
func (f *Frame) startsSomething(stack []*Frame) bool {
	for i := range stack {
		if !stack[i].inLibc() {
			return true
		}
	}
	return false
}

func (f *Frame) suppression() string {
	switch {
	case f.Inlined:
		return strings.Replace("fun:*"+bareName(f.Function)+"*", "**", "*", 1)
	case f.Nameless() && f.Module == "":
		return "fun:*"
	case f.Nameless():
		return "obj:" + oneLine(f.Module)
	case f.Mangled != "":
		return "fun:" + oneLine(f.Mangled)
	}
	return "fun:" + oneLine(f.Function)
}

// bareName is a function's name alone: "make" of "ns::Widget<int>::make(int)".
// Of inlined functions Valgrind knows no more. It is empty where there is doubt.
func bareName(function string) string {
	end := strings.IndexAny(function, "(<")
	if end < 0 {
		end = len(function)
	}
	name := function[:end]
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	isWord := func(c rune) bool { return c == '_' || c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c)) }
	if strings.ContainsFunc(name, func(c rune) bool { return !isWord(c) }) || function[end:] != "" && function[end] == '<' {
		return ""
	}
	return name
}

// lsanSuppression names the function of the site, or its module.
func lsanSuppression(s *Site) string {
	for i := range s.Stack {
		f := s.Stack[i]
		switch {
		case isAllocator(f.Function):
		case !f.Nameless():
			return "leak:" + lsanPattern(f.Function)
		case f.Module != "":
			return "leak:" + lsanPattern(f.Module)
		}
	}
	return ""
}

// lsanPattern matches a whole name; it ends early at a $, which has no escape.
func lsanPattern(name string) string {
	name = oneLine(name)
	if i := strings.IndexByte(name, '$'); i > 0 {
		return "^" + name[:i] + "\n"
	}
	return "^" + name + "$\n"
}
