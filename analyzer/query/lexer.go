package query

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenText
	tokenWord
	tokenSign
)

type token struct {
	kind     tokenKind
	from, to int
	text     string // of a word or a sign as it stands; of a text, what it means
	number   float64
	unit     unit
}

// A lexer cuts an expression into tokens.
type lexer struct {
	source string
	at     int
}

// signs are all there are, longer ones first.
var signs = []string{"&&", "||", "==", "!=", "<=", ">=", "!~", "<", ">", "!", "~", "(", ")", "[", "]", ",", "+", "-", "*", "/", "%"}

func (l *lexer) problem(from, to int, text string) *Problem {
	return &Problem{Expression: l.source, From: from, To: to, Text: text}
}

func (l *lexer) next() (token, *Problem) {
	for l.at < len(l.source) && strings.IndexByte(" \t\r\n", l.source[l.at]) >= 0 {
		l.at++
	}
	from := l.at
	if from == len(l.source) {
		return token{kind: tokenEnd, from: from, to: from}, nil
	}
	switch c := l.source[from]; {
	case c >= '0' && c <= '9', c == '.' && from+1 < len(l.source) && l.source[from+1] >= '0' && l.source[from+1] <= '9':
		return l.number()
	case c == '"', c == '\'', c == '`':
		return l.quoted(c)
	case isWordByte(c):
		for l.at < len(l.source) && isWordByte(l.source[l.at]) {
			l.at++
		}
		return token{kind: tokenWord, from: from, to: l.at, text: l.source[from:l.at]}, nil
	}
	for _, s := range signs {
		if strings.HasPrefix(l.source[from:], s) {
			l.at += len(s)
			return token{kind: tokenSign, from: from, to: l.at, text: s}, nil
		}
	}
	return token{}, l.strange(from)
}

// strange says what to write instead of a character that means nothing.
func (l *lexer) strange(from int) *Problem {
	r, size := utf8.DecodeRuneInString(l.source[from:])
	switch r {
	case '=':
		return l.problem(from, from+size, "write == to compare")
	case '&':
		return l.problem(from, from+size, "write && for and")
	case '|':
		return l.problem(from, from+size, "write || for or")
	}
	return l.problem(from, from+size, strconv.QuoteRune(r)+" means nothing here; texts stand in quotes")
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// quoted reads a text in quotes. A backslash before a quote or another one is no part of it; every other
// backslash is, as regular expressions have many.
func (l *lexer) quoted(quote byte) (token, *Problem) {
	from := l.at
	var out strings.Builder
	for l.at++; l.at < len(l.source); l.at++ {
		c := l.source[l.at]
		if c == quote {
			l.at++
			return token{kind: tokenText, from: from, to: l.at, text: out.String()}, nil
		}
		if c == '\\' && quote != '`' && l.at+1 < len(l.source) && (l.source[l.at+1] == quote || l.source[l.at+1] == '\\') {
			l.at++
			c = l.source[l.at]
		}
		out.WriteByte(c)
	}
	return token{}, l.problem(from, from+1, "this quote is not closed")
}

// number reads a number with its unit: 4096, 0x7f, 4KiB, 1.5ms, 1m30s.
func (l *lexer) number() (token, *Problem) {
	from := l.at
	for l.at < len(l.source) {
		rest, c := l.source[l.at:], l.source[l.at]
		switch {
		case isWordByte(c) || c == '.':
			l.at++
			continue
		case strings.HasPrefix(rest, "\u00b5"), strings.HasPrefix(rest, "\u03bc"): // both are micro
			l.at += 2
			continue
		case (c == '+' || c == '-') && l.inExponent(from):
			l.at++
			continue
		}
		break
	}
	t := token{kind: tokenNumber, from: from, to: l.at, text: l.source[from:l.at]}
	var err string
	if t.number, t.unit, err = parseNumber(t.text); err != "" {
		return token{}, l.problem(from, l.at, err)
	}
	return t, nil
}

// inExponent reports whether a sign belongs to a number that began at from, such as 1e+6.
func (l *lexer) inExponent(from int) bool {
	return !strings.HasPrefix(l.source[from:], "0x") && l.at > from+1 && l.source[l.at-1]|0x20 == 'e' && isDigit(l.source[l.at-2]) &&
		l.at+1 < len(l.source) && isDigit(l.source[l.at+1])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parseNumber returns a number in bytes or ns, by its unit, or what is wrong with it.
func parseNumber(text string) (float64, unit, string) {
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return 0, plain, "this is no number: after 0x come 1 to 16 hexadecimal digits"
		}
		return float64(n), plain, ""
	}
	if last := text[len(text)-1]; last == 's' || last == 'm' || last == 'h' {
		if d, err := time.ParseDuration(text); err == nil {
			return float64(d), nanoseconds, ""
		}
	}
	q, err := threshold.ParseQuantity(text)
	switch {
	case err != nil:
		return 0, plain, err.Error()
	case math.IsInf(q.Number, 0):
		return 0, plain, "this number means nothing here"
	case q.Unit == threshold.Size:
		return q.Number, bytes, ""
	case q.Unit == threshold.Time:
		return q.Number, nanoseconds, ""
	}
	return q.Number, plain, ""
}
