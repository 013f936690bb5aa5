package swift

import "strings"

func (p *parser) genericIndex() *node {
	switch {
	case p.nextIf('d'):
		depth := p.index() + 1
		return &node{kind: kParam, depth: depth, index: p.index()}
	case p.nextIf('z'):
		return &node{kind: kParam}
	}
	return &node{kind: kParam, index: p.index() + 1}
}

// maxParameters bounds those that a signature names.
const maxParameters = 128

// signature handles 'l' and, with counts of parameters, 'r'.
func (p *parser) signature(counted bool) *node {
	s := &node{kind: kSignature}
	var counts []*node
	if !counted {
		counts = append(counts, &node{index: 1})
	}
	for counted && !p.nextIf('l') {
		n := 0
		if !p.nextIf('z') {
			n = p.index() + 1
		}
		if n > maxParameters || len(counts) > maxParameters {
			fail()
		}
		counts = append(counts, &node{index: n})
	}
	for n := p.popKind(kRequirement); n != nil; n = p.popKind(kRequirement) {
		s.kids = append(s.kids, n)
	}
	reverse(s.kids)
	s.notes = counts
	return s
}

// requirement handles 'R': a letter says of which type and what.
func (p *parser) requirement() *node {
	const (
		generic = iota
		member
		compound
		substituted
	)
	about, what := generic, byte('p')
	c, found := p.next(), false
	for i, letters := range []string{" bsl", "pctm", "PCTM", "QBSL"} {
		if j := strings.IndexByte(letters, c); j >= 0 && c != ' ' {
			about, what, found = i, "pbsl"[j], true
		}
	}
	if !found {
		p.at-- // a protocol, of a parameter
	}
	var of *node
	switch about {
	case generic:
		of = typeOf(p.genericIndex())
	case member:
		of = p.remember(p.member(p.genericIndex()))
	case compound:
		of = p.remember(p.members(p.genericIndex()))
	default:
		of = p.popType()
	}
	switch what {
	case 'p':
		return &node{kind: kRequirement, text: ": ", kids: []*node{of, p.protocol()}}
	case 'b':
		return &node{kind: kRequirement, text: ": ", kids: []*node{of, p.popType()}}
	case 's':
		return &node{kind: kRequirement, text: " == ", kids: []*node{of, p.popType()}}
	case 'l':
		return &node{kind: kRequirement, text: ": ", kids: []*node{of, p.layout()}}
	}
	fail()
	return nil
}

func (p *parser) layout() *node {
	name := map[byte]string{'U': "_UnknownLayout", 'R': "_RefCountedObject", 'N': "_NativeRefCountedObject",
		'C': "AnyObject", 'D': "_NativeClass", 'T': "_Trivial"}[p.next()]
	if name == "" {
		fail()
	}
	return typeOf(&node{kind: kBuiltin, text: name})
}

func (p *parser) memberName() *node {
	m := &node{kind: kMember, kids: []*node{nil, p.popKind(kType)}}
	m.text = p.pop(func(n *node) bool { return n.kind == kIdentifier }).text
	return m
}

func (p *parser) member(of *node) *node {
	m := p.memberName()
	if of == nil {
		of = p.popType()
	}
	m.kids[0] = of
	return typeOf(m)
}

func (p *parser) members(of *node) *node {
	var names []*node
	for first := false; !first; {
		first = p.popKind(kFirst) != nil
		names = append(names, p.memberName())
	}
	if of == nil {
		of = p.popType()
	}
	for i := len(names) - 1; i >= 0; i-- {
		names[i].kids[0] = of
		of = typeOf(names[i])
	}
	return of
}

// archetype handles 'Q'.
func (p *parser) archetype() *node {
	switch c := p.next(); c {
	case 'x':
		return p.remember(p.member(nil))
	case 'X':
		return p.remember(p.members(nil))
	case 'y':
		return p.remember(p.member(p.genericIndex()))
	case 'Y':
		return p.remember(p.members(p.genericIndex()))
	case 'z':
		return p.remember(p.member(&node{kind: kParam}))
	case 'Z':
		return p.remember(p.members(&node{kind: kParam}))
	case 'a':
		name := p.pop(func(n *node) bool { return n.kind == kIdentifier })
		return typeOf(&node{kind: kMember, text: name.text, kids: []*node{p.popType(), nil}})
	case 'r':
		return typeOf(&node{kind: kSome})
	case 'R':
		p.index()
		return typeOf(&node{kind: kSome})
	case 'O':
		return &node{kind: kOpaqueOf, kids: []*node{p.context()}}
	case 'o':
		i := p.index()
		var arguments []*node
		for _, list := range p.argumentLists() {
			arguments = append(list, arguments...)
		}
		of := p.pop(func(n *node) bool { return n.kind == kOpaqueOf })
		return p.remember(typeOf(&node{kind: kOpaque, index: i, kids: []*node{of, {kind: kTypeList, kids: arguments}}}))
	}
	fail()
	return nil
}

// conformance handles 'H', of which nothing is shown.
func (p *parser) conformance() *node {
	switch p.next() {
	case 'P', 'p':
		p.protocol()
		return &node{kind: kConformanceRef}
	case 'C':
		p.list(p.anyConformance)
		if p.popKind(kConformanceRef) == nil {
			if p.module() == nil {
				fail()
			}
			p.protocol()
		}
		p.popType()
	case 'D':
		p.index()
		p.conformedTo()
		p.popType()
	case 'I':
		p.index()
		p.conformedTo()
		p.anyConformance()
	case 'A':
		p.index()
		p.conformedTo()
		p.popType()
		p.anyConformance()
	default:
		fail()
	}
	return &node{kind: kConformance}
}

func (p *parser) conformedTo() {
	if p.popKind(kConformanceRef) == nil {
		p.protocol()
	}
}

func (p *parser) anyConformance() *node {
	return p.pop(func(n *node) bool { return n.kind == kConformance })
}

// conventions of parameters and results of implementation function types.
var (
	parameterConventions = map[byte]string{'i': "@in", 'c': "@in_constant", 'l': "@inout", 'b': "@inout_aliasable", 'n': "@in_guaranteed",
		'x': "@owned", 'g': "@guaranteed", 'e': "@deallocating", 'y': "@unowned", 'v': "@pack_owned", 'p': "@pack_guaranteed", 'm': "@pack_inout"}
	resultConventions = map[byte]string{'r': "@out", 'o': "@owned", 'd': "@unowned", 'u': "@unowned_inner_pointer", 'a': "@autoreleased", 'k': "@pack_out"}
	calleeConventions = map[byte]string{'y': "@callee_unowned ", 'g': "@callee_guaranteed ", 'x': "@callee_owned ", 't': "@convention(thin) "}
	differentiable    = map[byte]string{'d': "@differentiable ", 'f': "@differentiable(_forward) ", 'r': "@differentiable(reverse) ", 'l': "@differentiable(_linear) "}
	callConventions   = map[byte]string{'B': "@convention(block) ", 'C': "@convention(c) ", 'M': "@convention(method) ",
		'O': "@convention(objc_method) ", 'K': "@convention(closure) ", 'W': "@convention(witness_method) "}
)

// implementation handles 'I': a function type of reabstraction thunks.
func (p *parser) implementation() *node {
	f := &node{kind: kImpl}
	if c := p.peek(); c == 's' || c == 'I' {
		fail() // substituted patterns
	}
	f.typ = p.popKind(kSignature)
	if f.typ != nil {
		p.nextIf('P')
	}
	if p.nextIf('e') {
		f.text += "@escaping "
	}
	if p.nextIf('A') {
		f.text += "@isolated(any) "
	}
	if text := differentiable[p.peek()]; text != "" {
		p.at++
		f.text += text
	}
	callee := calleeConventions[p.next()]
	if callee == "" {
		fail()
	}
	f.text += callee
	if text := callConventions[p.peek()]; text != "" {
		p.at++
		f.text += text
	}
	switch {
	case p.nextIf('A'):
		f.text += "@yield_once "
	case p.nextIf('G'):
		f.text += "@yield_many "
	}
	if p.nextIf('h') {
		f.text += "@Sendable "
	}
	if p.nextIf('H') {
		f.text += "@async "
	}
	p.convened(f)
	return typeOf(f)
}

// convened reads the conventions, and takes as many types.
func (p *parser) convened(f *node) {
	read := func(table map[byte]string, result int, before string) bool {
		text := table[p.peek()]
		if text == "" {
			return false
		}
		p.at++
		if p.nextIf('w') {
			text += " @noDerivative"
		}
		if p.nextIf('T') {
			text += " sending"
		}
		f.kids = append(f.kids, &node{kind: kConvention, text: before + text + " ", index: result})
		return true
	}
	for read(parameterConventions, 0, "") {
	}
	for read(resultConventions, 1, "") {
	}
	if p.nextIf('z') && !read(resultConventions, 1, "@error ") {
		fail()
	}
	if !p.nextIf('_') {
		fail()
	}
	for i := len(f.kids) - 1; i >= 0; i-- {
		f.kids[i].kids = []*node{p.popType()}
	}
}
