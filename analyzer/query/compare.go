package query

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
)

// compare makes a comparison of two values.
func (p *parser) compare(left *node, op token, right *node) (*node, *Problem) {
	out := &node{kind: isBool, needs: left.needs | right.needs, from: left.from, to: right.to}
	equal := op.text == "==" || op.text == "!="
	switch {
	case left.kind == isNumber && right.kind == isNumber:
		if err := p.sameUnit(left, right); err != nil {
			return nil, err
		}
		out.bool = compareNumbers(left, op.text, right)
	case left.kind == isBool && right.kind == isBool && equal:
		a, b, same := left.bool, right.bool, op.text == "=="
		out.bool = func(s *subject) bool { return (a(s) == b(s)) == same }
	case left.kind == isText && right.kind == isText && equal:
		a, b, same := left.text, right.text, op.text == "=="
		out.bool = func(s *subject) bool { return (a(s) == b(s)) == same }
	case left.kind == isTexts && right.kind == isText && equal:
		a, b, same := left.texts, right.text, op.text == "=="
		out.bool = func(s *subject) bool { return slices.Contains(a(s), b(s)) == same }
	case left.kind == right.kind && !equal:
		return nil, p.lex.problem(op.from, op.to, fmt.Sprintf("%s can be compared by == and != alone, texts also by ~", left.what()))
	default:
		return nil, p.at(right, fmt.Sprintf("%s is %s, and this is %s: they can't be compared", p.lex.source[left.from:left.to], left.what(), right.what()))
	}
	return p.remember(out), nil
}

// sameUnit sees that a size isn't compared with a time. A plain number may be one of bytes.
func (p *parser) sameUnit(left, right *node) *Problem {
	switch {
	case left.unit == right.unit, left.unit == bytes && right.unit == plain, left.unit == plain && right.unit == bytes,
		left.constant && left.value == 0, right.constant && right.value == 0:
		return nil
	case right.constant && right.unit == plain:
		return p.at(right, fmt.Sprintf("%s is %s: write the unit, such as %sms", p.lex.source[left.from:left.to], left.what(), p.lex.source[right.from:right.to]))
	}
	return p.at(right, fmt.Sprintf("%s is %s, and this is %s", p.lex.source[left.from:left.to], left.what(), right.what()))
}

// compareNumbers is most often of a field and a literal.
func compareNumbers(left *node, op string, right *node) func(*subject) bool {
	a, b := left.number, right.number
	if right.constant {
		return compareWith(a, op, right.value)
	}
	switch op {
	case "<":
		return func(s *subject) bool { return a(s) < b(s) }
	case "<=":
		return func(s *subject) bool { return a(s) <= b(s) }
	case ">":
		return func(s *subject) bool { return a(s) > b(s) }
	case ">=":
		return func(s *subject) bool { return a(s) >= b(s) }
	case "==":
		return func(s *subject) bool { return a(s) == b(s) }
	}
	return func(s *subject) bool { x, y := a(s), b(s); return x < y || x > y } // neither holds for what is missing
}

func compareWith(a func(*subject) float64, op string, b float64) func(*subject) bool {
	switch op {
	case "<":
		return func(s *subject) bool { return a(s) < b }
	case "<=":
		return func(s *subject) bool { return a(s) <= b }
	case ">":
		return func(s *subject) bool { return a(s) > b }
	case ">=":
		return func(s *subject) bool { return a(s) >= b }
	case "==":
		return func(s *subject) bool { return a(s) == b }
	}
	return func(s *subject) bool { x := a(s); return x < b || x > b }
}

// remember has a part on names alone be looked at once a site.
func (p *parser) remember(n *node) *node {
	if n.needs != needsNames {
		return n
	}
	at, f := p.memos, n.bool
	p.memos++
	n.bool = func(s *subject) bool {
		m := &s.site.memo[at]
		if *m == notAsked {
			*m = memoOf(f(s))
		}
		return *m == holds
	}
	return n
}

// matching is what follows ~, !~ and in.
func (p *parser) matching(left *node, op token) (*node, *Problem) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	out := &node{kind: isBool, needs: left.needs, from: left.from}
	if op.text == "in" {
		list, err := p.list()
		if err != nil {
			return nil, err
		}
		out.to = list[len(list)-1].to
		return p.within(out, left, list)
	}
	right := p.token
	if right.kind != tokenText {
		return nil, p.here("a regular expression in quotes is expected here")
	}
	if left.kind != isText && left.kind != isTexts {
		return nil, p.at(left, fmt.Sprintf("~ matches texts, and this is %s", left.what()))
	}
	re, err := p.pattern(right)
	if err != nil {
		return nil, err
	}
	out.to = right.to
	wanted := op.text == "~"
	if left.kind == isText {
		get := left.text
		out.bool = func(s *subject) bool { return re.MatchString(get(s)) == wanted }
	} else {
		get := left.texts
		out.bool = func(s *subject) bool { return slices.ContainsFunc(get(s), re.MatchString) == wanted }
	}
	return p.remember(out), p.advance()
}

// within makes a comparison with a list.
func (p *parser) within(out, left *node, list []*node) (*node, *Problem) {
	texts, numbers := make(map[string]bool), make(map[float64]bool)
	for _, n := range list {
		switch {
		case n.kind == isText && (left.kind == isText || left.kind == isTexts):
			texts[n.literal] = true
		case n.kind == isNumber && left.kind == isNumber:
			if err := p.sameUnit(left, n); err != nil {
				return nil, err
			}
			numbers[n.value] = true
		default:
			return nil, p.at(n, fmt.Sprintf("%s is %s, and this is %s", p.lex.source[left.from:left.to], left.what(), n.what()))
		}
	}
	switch left.kind {
	case isNumber:
		get := left.number
		out.bool = func(s *subject) bool { return numbers[get(s)] }
	case isText:
		get := left.text
		out.bool = func(s *subject) bool { return texts[get(s)] }
	default:
		get := left.texts
		out.bool = func(s *subject) bool { return slices.ContainsFunc(get(s), func(t string) bool { return texts[t] }) }
	}
	return p.remember(out), nil
}

// maxPatterns bounds what all regular expressions of an expression compile to, in instructions, about.
const maxPatterns = 20_000

// pattern compiles a regular expression, once it is known to be small.
func (p *parser) pattern(t token) (*regexp.Regexp, *Problem) {
	tree, err := syntax.Parse(t.text, syntax.Perl)
	if err != nil {
		return nil, p.lex.problem(t.from, t.to, err.Error())
	}
	if p.cost += patternCost(tree); p.cost > maxPatterns {
		return nil, p.lex.problem(t.from, t.to, "the regular expression is too large: it repeats too much")
	}
	re, err := regexp.Compile(t.text)
	if err != nil {
		return nil, p.lex.problem(t.from, t.to, err.Error())
	}
	return re, nil
}

func patternCost(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += patternCost(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) + 1
	}
	return min(n, maxPatterns+1)
}

// calculate makes a sum, a product and the like.
func (p *parser) calculate(left *node, op token, right *node) (*node, *Problem) {
	for _, n := range []*node{left, right} {
		if n.kind != isNumber {
			return nil, p.at(n, fmt.Sprintf("%s calculates with numbers, and this is %s", op.text, n.what()))
		}
	}
	out := &node{kind: isNumber, unit: left.unit, needs: left.needs | right.needs, from: left.from, to: right.to}
	a, b := left.number, right.number
	switch op.text {
	case "*":
		if left.unit != plain && right.unit != plain {
			return nil, p.at(right, fmt.Sprintf("%s times %s is nothing that is known of a block", left.what(), right.what()))
		}
		out.unit = max(left.unit, right.unit)
		out.number = func(s *subject) float64 { return a(s) * b(s) }
		return out, nil
	case "/":
		if right.unit != plain {
			out.unit = plain
		}
		if right.constant && right.value == 0 {
			return nil, p.at(right, "nothing can be divided by 0")
		}
		out.number = func(s *subject) float64 {
			if by := b(s); by != 0 {
				return a(s) / by
			}
			return missing
		}
		return out, nil
	}
	if err := p.sameUnit(left, right); err != nil {
		return nil, err
	}
	out.unit = max(left.unit, right.unit)
	switch op.text {
	case "+":
		out.number = func(s *subject) float64 { return a(s) + b(s) }
	case "-":
		out.number = func(s *subject) float64 { return a(s) - b(s) }
	default:
		if right.constant && right.value == 0 {
			return nil, p.at(right, "there is no remainder of a division by 0")
		}
		out.number = func(s *subject) float64 { return math.Mod(a(s), b(s)) } // of 0 it is missing
	}
	return out, nil
}
