package query

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Problem says what is wrong with an expression, and where.
type Problem struct {
	Expression string
	From, To   int // bytes of Expression
	Text       string
}

// Error is one line.
func (p *Problem) Error() string {
	return fmt.Sprintf("expression, at character %d: %s", utf8.RuneCountInString(p.Expression[:p.From])+1, p.Text)
}

// Explain shows the place below the expression, which may hold anything: print it by render.CleanLines.
func (p *Problem) Explain() string {
	line := func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return r
	}
	marked := max(1, utf8.RuneCountInString(p.Expression[p.From:p.To]))
	return fmt.Sprintf("%s\n\n    %s\n    %s%s\n", p.Text, strings.Map(line, p.Expression),
		strings.Repeat(" ", utf8.RuneCountInString(p.Expression[:p.From])), strings.Repeat("^", marked))
}
