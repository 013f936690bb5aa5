package suppress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A List has the leaks that are known and not to be reported, as
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
type List struct {
	all   []suppression
	names names
}

type suppression struct {
	name   string
	kinds  []string // that it is for; nil: all
	any    string   // LeakSanitizer's pattern, or
	frames []string // Valgrind's lines, innermost frame first
	used   bool
	scope  *Scope // of those that a program has built in; nil: it is of a file
}

// Scope is what the suppressions that a program has built in are for: leaks of
// certain processes, where they run that program or the stacks lead through it, as
// where it was replaced since. Another process's path that reads the same may be
// of another file, of another user's making.
type Scope struct {
	module string
	pids   map[int]bool
}

// Add adds a process that runs the program.
func (s *Scope) Add(pid int) { s.pids[pid] = true }

// maxSuppressions bounds what a file can hold.
const maxSuppressions = 1 << 16

// Parse reads a file of at most 65,536 suppressions, of lines of at most 64 KiB. Its
// errors name the line at which a file is no such file, and never repeat its text.
func Parse(r io.Reader) (*List, error) {
	s := &List{}
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
			return nil, fmt.Errorf("line %d is neither leak:PATTERN nor the { of a Valgrind suppression", number)
		}
	}
	return s, lines.Err()
}

// block reads a Valgrind suppression after its brace.
func (s *List) block(next func() (string, bool)) error {
	name, _ := next()
	kind, ok := next()
	out, leak := suppression{name: name}, isMemcheckLeak(kind)
	for ok {
		var line string
		if line, ok = next(); !ok || line == "}" {
			break
		}
		kinds, isKinds := strings.CutPrefix(line, "match-leak-kinds:")
		switch {
		case isKinds:
			var err error
			if out.kinds, err = parseKinds(kinds); leak && err != nil {
				return fmt.Errorf("the suppression: %w", err)
			}
		case line == "...", strings.HasPrefix(line, "fun:"), strings.HasPrefix(line, "obj:"), strings.HasPrefix(line, "src:"):
			out.frames = append(out.frames, line)
		case leak:
			return errors.New("a line of the suppression is neither fun:, obj:, src: nor ... for any frames")
		}
	}
	switch {
	case !ok:
		return errors.New("a Valgrind suppression has no closing brace")
	case leak && len(out.frames) == 0:
		return errors.New("the suppression names no function")
	case leak:
		s.all = append(s.all, out)
	}
	return nil
}

// isMemcheckLeak reports whether a line such as "Memcheck,Addrcheck:Leak" is
// about leaks.
func isMemcheckLeak(line string) bool {
	tools, kind, _ := strings.Cut(line, ":")
	return strings.TrimSpace(kind) == "Leak" && slices.Contains(strings.Split(tools, ","), "Memcheck")
}

// parseKinds parses the set after match-leak-kinds. Nil means all; of
// Valgrind's kinds, reachable blocks are never reported here.
func parseKinds(list string) ([]string, error) {
	kinds := []string{}
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); {
		case word == "all":
			return nil, nil
		case report.IsVerdict(word):
			kinds = append(kinds, word)
		case word != "none" && word != "reachable":
			return nil, errors.New("match-leak-kinds has an unknown kind (there are definite, indirect, possible, reachable, all, none)")
		}
	}
	return kinds, nil
}

// Apply takes the suppressed leaks out of a Report whose stacks are named, says
// in its warnings how many those were, and returns them.
func (s *List) Apply(r *report.Report) (out []report.Leak) {
	var sum report.LeakSum
	sites := r.SiteIndex()
	modules := make(map[int]string, len(r.Processes))
	for i := range r.Processes {
		modules[r.Processes[i].ID] = r.Processes[i].Exe
	}
	r.Leaks = slices.DeleteFunc(r.Leaks, func(l report.Leak) bool {
		site := sites[l.Site]
		if site == nil || !s.matches(&l, modules[l.Process], site.Frames()) {
			return false
		}
		sum.Add(&l)
		out = append(out, l)
		return true
	})
	if sum.Count > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d leaked blocks of %s are suppressed", sum.Count, report.HumanBytes(float64(sum.Bytes))))
	}
	return out
}

// maxEmbedded is how many suppressions of one program count: no program keeps
// others' from having any.
const maxEmbedded = 4096

// Embed adds what a program has built in, whose path is module, and returns what
// says for which processes that counts, and how many suppressions there was no room for.
func (s *List) Embed(module string, embedded *List) (scope *Scope, left int) {
	scope = &Scope{module: module, pids: make(map[int]bool)}
	taken := embedded.all[:min(len(embedded.all), maxEmbedded, maxSuppressions-len(s.all))]
	for _, p := range taken {
		p.scope = scope
		s.all = append(s.all, p)
	}
	return scope, len(embedded.all) - len(taken)
}

// isFor reports whether a suppression is for a leak of a process that runs a
// program, or has done so.
func (p *suppression) isFor(pid int, exe string, stack []*report.Frame) bool {
	s := p.scope
	return s == nil || s.pids[pid] && (s.module == exe || slices.ContainsFunc(stack, func(f *report.Frame) bool { return f.Module == s.module }))
}

// Unused names the suppressions of files that no leak has matched. Programs may
// have more built in than a run of theirs needs.
func (s *List) Unused() (names []string) {
	for i := range s.all {
		if !s.all[i].used && s.all[i].scope == nil {
			names = append(names, s.all[i].name)
		}
	}
	return names
}

// matches reports whether any suppression is for a leak, and marks all that are.
func (s *List) matches(l *report.Leak, exe string, stack []*report.Frame) (found bool) {
	for i := range s.all {
		p := &s.all[i]
		if !p.isFor(l.PID, exe, stack) || p.kinds != nil && !slices.Contains(p.kinds, l.Kind) {
			continue
		}
		if p.any != "" && slices.ContainsFunc(stack, p.anywhere) || p.frames != nil && s.names.matchFrames(p.frames, stack) {
			p.used, found = true, true
		}
	}
	return found
}
