package top

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
)

// Filter chooses rows: all of its terms must hold. Its zero value takes all.
type Filter struct {
	terms []term
	text  string
}

type term struct {
	field string // "", "name", "pid", "user", "cgroup"
	word  string // in lower case
	pid   int
	not   bool
}

// filterFields are the fields that a term may name.
var filterFields = []string{"name", "pid", "user", "cgroup"}

// ParseFilter parses blank-separated terms. "redis" takes what has it in its
// name or command line, or is process redis where that is a number;
// "name:", "pid:", "user:" and "cgroup:" look at that alone; "!" before a term
// takes what it leaves out.
func ParseFilter(s string) (Filter, error) {
	f := Filter{text: strings.TrimSpace(s)}
	for _, word := range strings.Fields(s) {
		t, err := parseTerm(word)
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

func parseTerm(word string) (term, error) {
	var t term
	if rest, ok := strings.CutPrefix(word, "!"); ok && rest != "" {
		t.not, word = true, rest
	}
	if field, rest, ok := strings.Cut(word, ":"); ok {
		for _, known := range filterFields {
			if strings.EqualFold(field, known) {
				t.field, word = known, rest
			}
		}
	}
	t.word = strings.ToLower(word)
	if pid, err := strconv.Atoi(word); err == nil {
		t.pid = pid
	} else if t.field == "pid" {
		return t, fmt.Errorf("filter pid:%s: %q is not a process ID", render.Clean(word), render.Clean(word))
	}
	return t, nil
}

// String returns the filter as it was given.
func (f Filter) String() string { return f.text }

// Empty reports whether the filter takes everything.
func (f Filter) Empty() bool { return len(f.terms) == 0 }

// process reports whether the filter takes p.
func (f Filter) process(p *Process) bool {
	for _, t := range f.terms {
		if t.matches(p) == t.not {
			return false
		}
	}
	return true
}

func (t term) matches(p *Process) bool {
	switch t.field {
	case "pid":
		return p.PID == t.pid
	case "user":
		return strings.ToLower(p.User) == t.word
	case "cgroup":
		return holds(p.Cgroup, t.word)
	case "name":
		return holds(p.Name, t.word) || holds(p.Program, t.word)
	}
	return t.pid > 0 && p.PID == t.pid || holds(p.Name, t.word) || holds(p.Program, t.word) || holds(p.Command, t.word)
}

// name reports whether the filter takes something that has a name alone: a
// cgroup, a component, a mapping, a thread with its ID.
func (f Filter) name(name string, id int) bool {
	for _, t := range f.terms {
		ok := t.field != "pid" && holds(name, t.word) || t.pid > 0 && t.pid == id
		if ok == t.not {
			return false
		}
	}
	return true
}

// holds is a substring test that does not mind case.
func holds(s, lower string) bool {
	return strings.Contains(s, lower) || strings.Contains(strings.ToLower(s), lower)
}

// processes returns those that the filter takes.
func (f Filter) processes(all []Process) []Process {
	if f.Empty() {
		return all
	}
	var some []Process
	for i := range all {
		if f.process(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

// named returns the rows whose name the filter takes.
func named[R any](f Filter, rows []R, of func(*R) (string, int)) []R {
	if f.Empty() {
		return rows
	}
	var some []R
	for i := range rows {
		if f.name(of(&rows[i])) {
			some = append(some, rows[i])
		}
	}
	return some
}
