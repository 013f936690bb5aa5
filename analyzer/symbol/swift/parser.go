package swift

import "strings"

// Limits on what a name can make us do.
const (
	maxName   = 1 << 14 // bytes of a name, and of a result
	maxRepeat = 2048    // of one substitution
	maxWords  = 26
)

// mangled is the panic for a name that can't be read.
type mangled struct{}

// parser is the stack machine.
type parser struct {
	text  string
	at    int
	stack []*node
	subst []*node
	words []string
	left  *budget
}

func fail() { panic(mangled{}) }

// budget is how many steps a name may still take.
type budget int

func (b *budget) take(n int) {
	if *b -= budget(n); *b < 0 {
		fail()
	}
}

// write counts the copying of n bytes.
func (b *budget) write(n int) { b.take(n / 16) }

func (p *parser) more() bool { return p.at < len(p.text) }

// next takes a character, 0 at the end.
func (p *parser) next() byte {
	if !p.more() {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

func (p *parser) peek() byte {
	if !p.more() {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) nextIf(c byte) bool {
	if p.peek() != c || c == 0 {
		return false
	}
	p.at++
	return true
}

func (p *parser) push(n *node) {
	p.left.take(1)
	p.stack = append(p.stack, n)
}

// popIf takes the node on top if it is as wanted, else nil.
func (p *parser) popIf(wanted func(*node) bool) *node {
	if len(p.stack) == 0 {
		return nil
	}
	n := p.stack[len(p.stack)-1]
	if !wanted(n) {
		return nil
	}
	p.stack = p.stack[:len(p.stack)-1]
	return n
}

func (p *parser) popKind(k kind) *node { return p.popIf(func(n *node) bool { return n.kind == k }) }

// pop is popIf for what must be there.
func (p *parser) pop(wanted func(*node) bool) *node {
	n := p.popIf(wanted)
	if n == nil {
		fail()
	}
	return n
}

func (p *parser) popType() *node { return p.pop(func(n *node) bool { return n.kind == kType }) }

func (p *parser) remember(n *node) *node {
	p.subst = append(p.subst, n)
	return n
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isLetter(c byte) bool { return isLower(c) || isUpper(c) }

// natural reads a number, -1 where there is none.
func (p *parser) natural() int {
	if !isDigit(p.peek()) {
		return -1
	}
	n := 0
	for isDigit(p.peek()) {
		if n = n*10 + int(p.next()-'0'); n > 1<<20 {
			fail()
		}
	}
	return n
}

// index reads "_" as 0, "0_" as 1 and so on.
func (p *parser) index() int {
	if p.nextIf('_') {
		return 0
	}
	n := p.natural()
	if n < 0 || !p.nextIf('_') {
		fail()
	}
	return n + 1
}

// substitution handles 'A': what was said before, by letters; the last one is upper case.
func (p *parser) substitution() *node {
	repeat := -1
	for {
		c := p.next()
		switch {
		case isLower(c):
			p.push(p.repeated(repeat, int(c-'a')))
			repeat = -1
		case isUpper(c):
			return p.repeated(repeat, int(c-'A'))
		case c == '_':
			return p.repeated(1, repeat+27)
		case isDigit(c):
			p.at--
			repeat = p.natural()
		default:
			fail()
		}
	}
}

// repeated pushes a substitution all but once, and returns it.
func (p *parser) repeated(repeat, i int) *node {
	if i >= len(p.subst) || repeat > maxRepeat {
		fail()
	}
	for ; repeat > 1; repeat-- {
		p.push(p.subst[i])
	}
	return p.subst[i]
}

// identifier reads a name: its length and it, words of earlier names in place
// of some of it, or punycode.
func (p *parser) identifier() *node {
	var b strings.Builder
	words, puny := false, false
	if p.nextIf('0') {
		puny = p.nextIf('0')
		words = !puny
	}
	for {
		for words && isLetter(p.peek()) {
			c := p.next()
			i := int(c|0x20) - 'a'
			words = isLower(c)
			if i >= len(p.words) {
				fail()
			}
			if b.Len()+len(p.words[i]) > maxName {
				fail()
			}
			p.left.write(len(p.words[i]))
			b.WriteString(p.words[i])
		}
		if p.nextIf('0') {
			break
		}
		b.WriteString(p.piece(puny))
		if !words || b.Len() > maxName {
			break
		}
	}
	if b.Len() == 0 || b.Len() > maxName {
		fail()
	}
	return p.remember(&node{kind: kIdentifier, text: b.String()})
}

// piece reads a length and as many bytes.
func (p *parser) piece(puny bool) string {
	n := p.natural()
	if n <= 0 {
		fail()
	}
	if puny {
		p.nextIf('_')
	}
	if n > len(p.text)-p.at {
		fail()
	}
	text := p.text[p.at : p.at+n]
	p.at += n
	if puny {
		return decodePunycode(text, p.left)
	}
	p.learnWords(text)
	return text
}

// learnWords notes the words of a name: they begin at capitals and underscores.
func (p *parser) learnWords(text string) {
	start := -1
	for i := 0; i <= len(text); i++ {
		var c byte
		if i < len(text) {
			c = text[i]
		}
		if start >= 0 && (c == '_' || c == 0 || isUpper(c) && !isUpper(text[i-1])) {
			if i-start >= 2 && len(p.words) < maxWords {
				p.words = append(p.words, text[start:i])
			}
			start = -1
		}
		if start < 0 && c != 0 && c != '_' && !isDigit(c) {
			start = i
		}
	}
}

// operatorLetters are the characters that the letters of an operator's name stand for.
const operatorLetters = "& @/= >    <*!|+?%-~   ^ ."

// operator handles 'o': a name in letters, then where it stands.
func (p *parser) operator() *node {
	name := p.pop(func(n *node) bool { return n.kind == kIdentifier })
	p.left.write(len(name.text))
	text := make([]byte, 0, len(name.text))
	for _, c := range []byte(name.text) {
		switch {
		case c >= 0x80:
			text = append(text, c)
		case isLower(c) && operatorLetters[c-'a'] != ' ':
			text = append(text, operatorLetters[c-'a'])
		default:
			fail()
		}
	}
	k := map[byte]kind{'i': kInfix, 'p': kPrefix, 'P': kPostfix}[p.next()]
	if k == kNone {
		fail()
	}
	return &node{kind: k, text: string(text)}
}

// local handles 'L': private names, and names in functions.
func (p *parser) local() *node {
	switch c := p.peek(); {
	case p.nextIf('L'):
		where := p.pop(func(n *node) bool { return n.kind == kIdentifier })
		return &node{kind: kPrivate, kids: []*node{where, p.pop(isName)}}
	case p.nextIf('l'):
		return &node{kind: kPrivate, kids: []*node{p.pop(func(n *node) bool { return n.kind == kIdentifier })}}
	case c >= 'a' && c <= 'j' || c >= 'A' && c <= 'J':
		p.at++
		return &node{kind: kRelated, text: string(c), kids: []*node{p.pop(isName)}}
	}
	i := p.index()
	return &node{kind: kLocal, index: i, kids: []*node{p.pop(isName)}}
}
