package tracer

import (
	"fmt"
	"slices"
)

// problems are the lines that say what code has no tables, and why. No user's files can take the room of others' lines.
type problems struct {
	lines []string
	room  *quota
	more  map[account]bool // who has more than is named
}

const (
	maxProblems = 128
	maxMore     = 32
)

func newProblems() problems {
	return problems{room: newQuota(maxProblems), more: make(map[account]bool)}
}

// add notes why code has no table, once.
func (p *problems) add(a account, text string) {
	switch {
	case slices.Contains(p.lines, text):
	case p.room.take(a, 1):
		p.lines = append(p.lines, text)
	case !p.more[a] && len(p.more) < maxMore:
		p.more[a] = true
		p.lines = append(p.lines, fmt.Sprintf("more code of %v than is named here has no unwinding tables", a))
	case !p.more[a] && len(p.more) == maxMore:
		p.more[a] = true
		p.lines = append(p.lines, "code of more users than are named here has no unwinding tables")
	}
}
