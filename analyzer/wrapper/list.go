package wrapper

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed list.txt
var listText string

// listed is list.txt, read when it is first asked for.
var listed = sync.OnceValue(func() *Patterns {
	p := &Patterns{}
	for line := range strings.Lines(listText) {
		pattern, _, ok := strings.Cut(line, " # ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.Add(pattern); err != nil {
			panic("list.txt: " + err.Error()) // a test reads it
		}
	}
	return p
})

// Known reports whether a function, by its demangled name, is an allocator or a
// wrapper of one that list.txt has.
func Known(function string) bool { return listed().Match(function) }

// Patterns are patterns of functions' names, in which a star stands for any text.
type Patterns struct {
	exact    map[string]bool
	prefixes map[string][]string // those that have a star at their end alone, by their first two bytes
	globs    []string
}

// Read reads patterns; none gives nil.
func Read(patterns []string) (*Patterns, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	out := &Patterns{}
	for _, p := range patterns {
		if err := out.Add(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Add adds a pattern. One that would match every name is refused.
func (p *Patterns) Add(pattern string) error {
	if strings.Trim(pattern, "* ") == "" {
		return fmt.Errorf("%q names no function", pattern)
	}
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	switch {
	case !strings.Contains(pattern, "*"):
		if p.exact == nil {
			p.exact = make(map[string]bool)
		}
		p.exact[pattern] = true
	case isPrefix && !strings.Contains(prefix, "*") && len(prefix) >= 2:
		if p.prefixes == nil {
			p.prefixes = make(map[string][]string)
		}
		p.prefixes[prefix[:2]] = append(p.prefixes[prefix[:2]], prefix)
	default:
		p.globs = append(p.globs, pattern)
	}
	return nil
}

// Match reports whether a pattern matches the whole of a function's name, or of its bare name.
func (p *Patterns) Match(function string) bool {
	if p == nil {
		return false
	}
	bare := Bare(function)
	return p.match(bare) || bare != function && p.match(function)
}

func (p *Patterns) match(name string) bool {
	if p.exact[name] {
		return true
	}
	if len(name) >= 2 {
		for _, prefix := range p.prefixes[name[:2]] {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	for _, glob := range p.globs {
		if matches(glob, name) {
			return true
		}
	}
	return false
}

// matches holds a pattern with stars against a whole name. Each part is looked for
// where it first is, so that the work is that of as many searches as there are stars.
func matches(glob, name string) bool {
	parts := strings.Split(glob, "*")
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[last])
}
