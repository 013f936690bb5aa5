package suppress

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Style is the tool whose format is written. memtrace reads both.
type Style string

const (
	Valgrind Style = "valgrind"
	LSan     Style = "lsan" // LeakSanitizer's
)

// Write writes what suppresses the given leaks of a Report (indexes
// into Leaks) from the next run on: in Valgrind's format each call stack, in
// LeakSanitizer's, which knows no stacks, each site's function. Leaks of which no
// name is known, or none that the format can tell from others', are in a comment
// instead; it returns what those are, for a warning, and the error of w.
func Write(w io.Writer, r *report.Report, leaks []int, style Style) (left []string, err error) {
	var out strings.Builder
	out.WriteString("# Suppressions of memory leaks, written by memtrace.\n")
	sites, seen := r.SiteIndex(), make(map[string]bool)
	for _, i := range leaks {
		l := &r.Leaks[i]
		text := ""
		if site := sites[l.Site]; site != nil && len(site.Stack) > 0 && style == LSan {
			text = lsanSuppression(r, site)
		} else if site != nil {
			text = valgrindSuppression(l, site)
		}
		if text == "" {
			what := unwritten(l, sites[l.Site])
			text = "# " + what + "\n"
			if !seen[text] {
				left = append(left, what)
			}
		}
		if !seen[text] {
			seen[text] = true
			out.WriteString(text)
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return left, fmt.Errorf("write suppressions: %w", err)
	}
	return left, nil
}

// unwritten says of a leak why no suppression is written.
func unwritten(l *report.Leak, s *report.Site) string {
	what := fmt.Sprintf("%s leak of %d bytes: ", oneLine(l.Kind), l.Bytes)
	if s == nil || !slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return !f.Nameless() || f.Module != "" }) {
		return what + "no function is known of its stack"
	}
	name := oneLine(s.Function)
	return what + "nothing in this format would match " + name[:min(len(name), 200)] + " and no other function"
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
func valgrindSuppression(l *report.Leak, s *report.Site) string {
	lines, inner := []string{"fun:*"}, entryFrames(s.Stack) // malloc, or whichever of its like
	if inner > 0 {
		lines[0] = "fun:_Zn*"
	}
	named, open := false, false // open: some line before matches other functions, too
	for i := inner; i < len(s.Stack); i++ {
		f := s.Stack[i]
		if f.InLibc() && !startsSomething(s.Stack[i:]) || len(lines) == maxSuppressed {
			break
		}
		line, exact := frameLine(f)
		switch {
		case line == "":
			return ""
		case !exact:
			open = true
			// Whatever a function calls is not told apart by the function's name alone.
			if !named && !f.Inlined {
				return ""
			}
		case !report.IsAllocator(f.Function) && (f.Function != "main" || !open):
			named = true
		}
		lines = append(lines, line)
		if f.Function == "main" {
			break
		}
	}
	if !named {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "{\n   %s leak in %s\n   Memcheck:Leak\n", oneLine(l.Kind), oneLine(report.SiteFunction(s.Stack)))
	if report.IsVerdict(l.Kind) {
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
func startsSomething(stack []*report.Frame) bool {
	for i := range stack {
		if !stack[i].InLibc() {
			return true
		}
	}
	return false
}

// frameLine is the line for a frame, and whether it matches that function, or
// file, alone. It is empty where the format can't write the name: neither tool
// has an escape for its stars and question marks.
func frameLine(f *report.Frame) (line string, exact bool) {
	kind, name := "fun:", f.Function
	switch {
	case f.Inlined:
		return strings.Replace("fun:*"+bareName(f.Function)+"*", "**", "*", 1), false
	case f.Nameless() && f.Module == "":
		return "fun:*", false
	case f.Nameless():
		kind, name = "obj:", f.Module
	case f.Mangled != "":
		name = f.Mangled
	}
	if !writable(name, "*?") {
		return "", false
	}
	return kind + name, true
}

// maxWritten bounds a name that is written: readers bound their lines.
const maxWritten = 16 << 10

// writable reports whether a name stands for itself in a file of lines whose
// format has wildcards. What is not printable has been replaced, so that the
// name is many names.
func writable(name, wildcards string) bool {
	return name != "" && len(name) <= maxWritten && !strings.ContainsAny(name, wildcards) && strings.TrimSpace(name) == name &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
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

// lsanSuppression names the function of the site, or the library that it is of.
// The pattern is held against all frames of a stack: what is in every stack of a
// program, such as main, would suppress all of its leaks.
func lsanSuppression(r *report.Report, s *report.Site) string {
	for i := range s.Stack {
		f := s.Stack[i]
		switch {
		case report.IsAllocator(f.Function):
		case !f.Nameless():
			return lsanFunction(f)
		case f.Module != "" && !f.InLibc() && !isProgram(r, f.Module) && strings.HasPrefix(f.Module, "/") && writable(f.Module, "*$"):
			return "leak:^" + f.Module + "$\n"
		default:
			return "" // what called it calls other functions, too
		}
	}
	return ""
}

// isProgram reports whether a process runs a file.
func isProgram(r *report.Report, path string) bool {
	return slices.ContainsFunc(r.Processes, func(p report.Process) bool { return p.Exe == path })
}

// lsanFunction names a function by the whole of its name. Stars and dollars have
// no escape. Stars that come of demangling, as in f(char*), stand for no more than
// an overload of the same function; a name with others is written as it is mangled.
func lsanFunction(f *report.Frame) string {
	plain := writable(f.Mangled, "*?$")
	switch {
	case looksLikeFile(f.Function), startNames[f.Function]: // which the pattern is held against, too
	case writable(f.Function, "*$"), plain && writable(f.Function, "$") && !starOperator(f.Function):
		return "leak:^" + f.Function + "$\n"
	case plain:
		return "# LeakSanitizer itself knows this one by no name that could be written here.\nleak:^" + f.Mangled + "$\n"
	}
	return ""
}

// starOperator reports whether a star may be a part of the function's own name.
func starOperator(function string) bool {
	return strings.Contains(function, "operator*") || strings.Contains(function, "operator->*")
}

// startNames are functions that call all others of a program or of a thread.
var startNames = map[string]bool{
	"main": true, "_start": true, "__libc_start_main": true, "__libc_start_main_impl": true, "__libc_start_call_main": true,
	"libc_start_main_stage2": true, "_start_c": true, "__libc_start_main_stage2": true, "generic_start_main": true,
	"start_thread": true, "thread_start": true, "start": true, "clone": true, "__clone": true, "clone3": true, "__clone3": true,
	"execute_native_thread_routine": true, "_dl_start_user": true, "_dl_start": true, "std::rt::lang_start": true, "std::rt::lang_start_internal": true,
	"runtime.main": true, "runtime.goexit": true, "runtime.asmcgocall": true, "runtime.cgocall": true, "main.main": true,
	"Py_BytesMain": true, "Py_RunMain": true, "pymain_run_python": true, "_PyEval_EvalFrameDefault": true, "PyEval_EvalCode": true,
}

// sourceEndings are those of files of source code.
var sourceEndings = []string{"c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "inc", "s", "asm", "rs", "go", "d", "zig", "swift",
	"f", "f90", "f95", "m", "mm", "py", "pyx", "java", "kt", "cs", "js", "ts", "rb", "php", "pl", "y", "l", "adb", "ads", "nim", "v", "cu"}

// looksLikeFile reports whether a function bears the name of a mapped file or of
// a source file, which is in the stacks of other functions.
func looksLikeFile(name string) bool {
	ending := path.Ext(name)
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "[") || strings.HasPrefix(name, "<") && strings.HasSuffix(name, ">") ||
		ending != "" && slices.Contains(sourceEndings, strings.ToLower(ending[1:]))
}
