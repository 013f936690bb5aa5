package query

import (
	"fmt"
)

// Bounds on an expression.
const (
	maxSource = 4096 // bytes
	maxDepth  = 64   // of parentheses and the like
	maxNodes  = 512
)

// A node is a part of an expression that has been checked.
type node struct {
	kind     valueKind
	unit     unit
	needs    needs
	from, to int

	constant bool    // a literal
	value    float64 // of a number that is a literal
	literal  string  // of a text

	bool   func(*subject) bool
	number func(*subject) float64
	text   func(*subject) string
	texts  func(*subject) []string

	parts []*node // of a conjunction
}

type parser struct {
	lex   lexer
	token token
	depth int
	nodes int
	memos int // parts that are remembered once a site
	cost  int // of regular expressions
}

// parse checks a whole expression.
func parse(source string) (*node, int, *Problem) {
	p := parser{lex: lexer{source: source}}
	if len(source) > maxSource {
		return nil, 0, p.lex.problem(0, 0, fmt.Sprintf("it has %d bytes, at most %d are read", len(source), maxSource))
	}
	if err := p.advance(); err != nil {
		return nil, 0, err
	}
	if p.token.kind == tokenEnd {
		always := &node{kind: isBool, bool: func(*subject) bool { return true }}
		return always, 0, nil
	}
	n, err := p.or()
	if err != nil {
		return nil, 0, err
	}
	if p.token.kind != tokenEnd {
		return nil, 0, p.here("a comparison or the end of the expression is expected before this (&& and || join comparisons)")
	}
	if n.kind != isBool {
		return nil, 0, p.at(n, fmt.Sprintf("this is %s; compare it with something", n.what()))
	}
	return n, p.memos, nil
}

func (p *parser) advance() (err *Problem) {
	p.token, err = p.lex.next()
	return err
}

func (p *parser) here(text string) *Problem {
	return p.lex.problem(p.token.from, p.token.to, text)
}

func (p *parser) at(n *node, text string) *Problem { return p.lex.problem(n.from, n.to, text) }

// is reports whether the token is a sign or a word.
func (p *parser) is(words ...string) bool {
	for _, w := range words {
		if p.token.text == w && (p.token.kind == tokenSign || p.token.kind == tokenWord) {
			return true
		}
	}
	return false
}

// enter counts a level; every one that nests begins with it.
func (p *parser) enter() *Problem {
	p.nodes++
	if p.depth++; p.depth > maxDepth || p.nodes > maxNodes {
		return p.here(fmt.Sprintf("the expression is too large: at most %d parts, %d levels deep", maxNodes, maxDepth))
	}
	return nil
}

func (p *parser) or() (*node, *Problem) {
	return p.joined([]string{"||", "or"}, (*parser).and, func(all []func(*subject) bool) func(*subject) bool {
		return func(s *subject) bool {
			for _, f := range all {
				if f(s) {
					return true
				}
			}
			return false
		}
	}, false)
}

func (p *parser) and() (*node, *Problem) {
	return p.joined([]string{"&&", "and"}, (*parser).not, conjunction, true)
}

func conjunction(all []func(*subject) bool) func(*subject) bool {
	if len(all) == 2 {
		a, b := all[0], all[1]
		return func(s *subject) bool { return a(s) && b(s) }
	}
	return func(s *subject) bool {
		for _, f := range all {
			if !f(s) {
				return false
			}
		}
		return true
	}
}

// joined parses parts that a word joins.
func (p *parser) joined(words []string, part func(*parser) (*node, *Problem), join func([]func(*subject) bool) func(*subject) bool, keep bool) (*node, *Problem) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	first, err := part(p)
	if err != nil || !p.is(words...) {
		return first, err
	}
	list := []*node{first}
	for p.is(words...) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := part(p)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	out := &node{kind: isBool, from: first.from, to: list[len(list)-1].to}
	var all []func(*subject) bool
	for _, n := range list {
		if n.kind != isBool {
			return nil, p.at(n, fmt.Sprintf("this is %s; compare it with something", n.what()))
		}
		out.needs |= n.needs
		all = append(all, n.bool)
		if keep {
			out.parts = append(out.parts, n.conjuncts()...)
		}
	}
	out.bool = join(all)
	return out, nil
}

// conjuncts are the parts that must all hold.
func (n *node) conjuncts() []*node {
	if len(n.parts) == 0 {
		return []*node{n}
	}
	return n.parts
}

func (p *parser) not() (*node, *Problem) {
	if !p.is("!", "not") {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	from := p.token.from
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.not()
	if err != nil {
		return nil, err
	}
	if n.kind != isBool {
		return nil, p.at(n, fmt.Sprintf("this is %s, and only what is true or false can be negated; put a comparison in parentheses", n.what()))
	}
	f := n.bool
	return &node{kind: isBool, needs: n.needs, from: from, to: n.to, bool: func(s *subject) bool { return !f(s) }}, nil
}

// what says what a node gives, for errors.
func (n *node) what() string {
	if n.kind == isNumber {
		return unitNames[n.unit]
	}
	return kindNames[n.kind]
}

func (p *parser) comparison() (*node, *Problem) {
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	op := p.token
	switch {
	case p.is("==", "!=", "<", "<=", ">", ">="):
	case p.is("~", "!~"), p.is("in"):
		return p.matching(left, op)
	case p.is("contains", "startsWith", "endsWith", "matches"):
		return nil, p.here(fmt.Sprintf("write ~ and a regular expression instead, such as %s ~ \"parse\", \"^parse\" or \"parse$\"", p.lex.source[left.from:left.to]))
	default:
		return left, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	right, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.is("==", "!=", "<", "<=", ">", ">=") {
		return nil, p.here("one comparison at a time: write 1KiB < size && size < 4KiB")
	}
	return p.compare(left, op, right)
}

func (p *parser) sum() (*node, *Problem) {
	return p.arithmetic([]string{"+", "-"}, func(p *parser) (*node, *Problem) {
		return p.arithmetic([]string{"*", "/", "%"}, (*parser).primary)
	})
}

func (p *parser) arithmetic(words []string, part func(*parser) (*node, *Problem)) (*node, *Problem) {
	left, err := part(p)
	for err == nil && p.token.kind == tokenSign && p.is(words...) {
		op := p.token
		if p.nodes++; p.nodes > maxNodes {
			return nil, p.here("the expression is too large")
		}
		if err = p.advance(); err != nil {
			return nil, err
		}
		var right *node
		if right, err = part(p); err != nil {
			return nil, err
		}
		left, err = p.calculate(left, op, right)
	}
	return left, err
}

func (p *parser) primary() (*node, *Problem) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	t := p.token
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch {
	case t.kind == tokenNumber:
		v := t.number
		return &node{kind: isNumber, unit: t.unit, from: t.from, to: t.to, constant: true, value: v, number: func(*subject) float64 { return v }}, nil
	case t.kind == tokenText:
		v := t.text
		return &node{kind: isText, from: t.from, to: t.to, constant: true, literal: v, text: func(*subject) string { return v }}, nil
	case t.kind == tokenWord:
		return p.word(t)
	case t.kind == tokenSign && t.text == "(":
		return p.parenthesis(t)
	case t.kind == tokenSign && t.text == "-":
		return nil, p.lex.problem(t.from, t.to, "no size and no time is negative; write a difference, such as freed - born")
	case t.kind == tokenEnd:
		return nil, p.lex.problem(t.from, t.to, "something is missing here: a field, a number with its unit, or a text in quotes")
	}
	return nil, p.lex.problem(t.from, t.to, fmt.Sprintf("a field, a number with its unit, or a text in quotes is expected before %s", t.text))
}

func (p *parser) parenthesis(open token) (*node, *Problem) {
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.is(")") {
		return nil, p.lex.problem(open.from, open.to, "this parenthesis is not closed")
	}
	inner := *n
	inner.from, inner.to, inner.constant = open.from, p.token.to, false
	return &inner, p.advance()
}

// word is a field, alive_at(t), true or false.
func (p *parser) word(t token) (*node, *Problem) {
	switch {
	case t.text == "true" || t.text == "false":
		yes := t.text == "true"
		return &node{kind: isBool, from: t.from, to: t.to, bool: func(*subject) bool { return yes }}, nil
	case t.text == "alive_at" && p.is("("):
		return p.aliveAt(t)
	}
	f := fieldOf(t.text)
	if f == nil {
		return nil, p.lex.problem(t.from, t.to, unknownField(t.text))
	}
	if p.is("(") {
		return nil, p.here(fmt.Sprintf("%s is a field, not a function; the one function is alive_at(t)", f.Name))
	}
	return &node{kind: f.kind, unit: f.unit, needs: f.needs, from: t.from, to: t.to, bool: f.bool, number: f.number, text: f.text, texts: f.texts}, nil
}

func (p *parser) aliveAt(t token) (*node, *Problem) {
	open := p.token
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.sum()
	if err != nil {
		return nil, err
	}
	if n.kind != isNumber || n.unit != nanoseconds {
		return nil, p.at(n, fmt.Sprintf("alive_at takes a time, such as 30s or end - 10s, and this is %s", n.what()))
	}
	if !p.is(")") {
		return nil, p.lex.problem(open.from, open.to, "this parenthesis is not closed")
	}
	at := n.number
	out := &node{kind: isBool, needs: n.needs | needsBlock, from: t.from, to: p.token.to, bool: func(s *subject) bool { return s.aliveAt(at(s)) }}
	return out, p.advance()
}

// list parses [a, b, c].
func (p *parser) list() ([]*node, *Problem) {
	open := p.token
	if !p.is("[") {
		return nil, p.here(`in takes a list, such as ["read", "write"] or [1, 2]`)
	}
	var out []*node
	for {
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.primary()
		if err != nil {
			return nil, err
		}
		if !n.constant {
			return nil, p.at(n, "a list has numbers and texts alone")
		}
		out = append(out, n)
		if p.is("]") {
			return out, p.advance()
		}
		if !p.is(",") {
			return nil, p.lex.problem(open.from, open.to, "this list is not closed: a comma or ] is expected")
		}
	}
}
