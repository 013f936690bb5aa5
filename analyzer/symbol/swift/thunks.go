package swift

import "strings"

var (
	// thunks are followed by an entity that they are made for.
	thunks = map[byte]string{'c': "curry thunk of ", 'j': "dispatch thunk of ", 'q': "method descriptor for "}
	// attributes go with the entity pushed before them.
	attributes = map[byte]string{'o': "@objc ", 'O': "@nonobjc ", 'D': "dynamic ", 'd': "super ", 'm': "merged ", 'E': "distributed thunk ",
		'F': "distributed accessor for ", 'u': "async function pointer to ", 'x': "dynamically replaceable variable for ",
		'X': "dynamically replaceable thunk for ", 'I': "dynamically replaceable key for "}
)

// thunk handles 'T'.
func (p *parser) thunk() *node {
	c := p.next()
	if text := thunks[c]; text != "" {
		return &node{kind: kOf, text: text, kids: []*node{p.pop(isEntity)}}
	}
	if text := attributes[c]; text != "" {
		return &node{kind: kAttribute, text: text}
	}
	switch c {
	case 'A':
		return &node{kind: kForwarder, text: "partial apply forwarder"}
	case 'a':
		return &node{kind: kForwarder, text: "partial apply ObjC forwarder"}
	case 'W':
		entity := p.pop(isEntity)
		return &node{kind: kThunk, text: "protocol witness for ", kids: []*node{entity, p.conforming()}, name: &node{}}
	case 'R', 'r':
		return p.reabstraction(c)
	case 'Y':
		return &node{kind: kAttribute, text: "(" + itoa(p.index()+1-1) + ") suspend resume partial function for "}
	case 'Q':
		return &node{kind: kAttribute, text: "(" + itoa(p.index()) + ") await resume partial function for "}
	case 'w':
		return p.backDeployed()
	case 'g', 'G', 'B', 's', 'i', 'p', 'P':
		return p.specialization(c)
	case 'f':
		return p.signatureSpecialization()
	}
	fail()
	return nil
}

func (p *parser) backDeployed() *node {
	text := map[byte]string{'b': "back deployment thunk for ", 'B': "back deployment fallback for "}[p.next()]
	if text == "" {
		fail()
	}
	return &node{kind: kAttribute, text: text}
}

func (p *parser) reabstraction(c byte) *node {
	text := "reabstraction thunk helper "
	if c == 'r' {
		text = "reabstraction thunk "
	}
	signature := p.popKind(kSignature)
	to := p.popType()
	return &node{kind: kThunk, text: text, kids: []*node{p.popType(), to}, typ: signature, labels: &node{}}
}

// specialization reads which types a generic function was compiled for.
func (p *parser) specialization(c byte) *node {
	text := "generic specialization <"
	switch c {
	case 'G':
		text = "generic not re-abstracted specialization <"
	case 'i':
		text = "inlined generic function <"
	case 's':
		text = "generic pre-specialization <"
	case 'p', 'P':
		text = "generic partial specialization <"
		if c == 'P' {
			text = "generic not-reabstracted partial specialization <"
		}
	}
	p.nextIf('m')
	if p.nextIf('q') {
		text += "serialized, "
	}
	p.nextIf('a')
	if !isDigit(p.next()) {
		fail()
	}
	if c == 'p' || c == 'P' {
		text += "Signature = "
		return &node{kind: kAttribute, text: text, kids: []*node{p.popType()}, index: 1}
	}
	return &node{kind: kAttribute, text: text, kids: p.list(p.popType), index: 1}
}

// signatureSpecialization reads what became of a function's arguments.
func (p *parser) signatureSpecialization() *node {
	text := "function signature specialization <"
	if p.nextIf('q') {
		text += "serialized, "
	}
	p.nextIf('a')
	if !isDigit(p.next()) {
		fail()
	}
	var said []*node
	for i := 0; !p.nextIf('_'); i++ {
		if n := p.argumentChange(); n != nil {
			n.text = "Arg[" + itoa(i) + "] = " + n.text
			said = append(said, n)
		}
	}
	if !p.nextIf('n') {
		n := p.argumentChange()
		if n == nil {
			fail()
		}
		n.text = "Return = " + n.text
		said = append(said, n)
	}
	for i := len(said) - 1; i >= 0; i-- {
		p.propagated(said[i])
	}
	return &node{kind: kAttribute, text: text, kids: said, index: 1}
}

// argumentChange reads one argument's letters; nil: it stayed as it was.
func (p *parser) argumentChange() *node {
	switch c := p.next(); c {
	case 'n':
		return nil
	case 'c':
		return &node{kind: kSuffix, text: "[Closure Propagated : ", index: 1}
	case 'p':
		if p.nextIf('f') {
			return &node{kind: kSuffix, text: "[Constant Propagated Function : ", index: 2}
		}
		if p.nextIf('g') {
			return &node{kind: kSuffix, text: "[Constant Propagated Global : ", index: 2}
		}
	case 'e', 'd', 'g', 'o', 'x', 'i', 's', 'r':
		words := []string{map[byte]string{'e': "Existential To Protocol Constrained Generic", 'd': "Dead", 'g': "Owned To Guaranteed",
			'o': "Guaranteed To Owned", 'x': "Exploded", 'i': "Value Promoted from Box", 's': "Stack Promoted from Box", 'r': "InOut Converted to Out"}[c]}
		for _, more := range []struct {
			letter     byte
			after, say string
		}{{'D', "e", "Dead"}, {'G', "ed", "Owned To Guaranteed"}, {'O', "ed", "Guaranteed To Owned"}, {'X', "edgo", "Exploded"}} {
			if strings.IndexByte(more.after, c) >= 0 && p.nextIf(more.letter) {
				words = append(words, more.say)
			}
		}
		return &node{kind: kSuffix, text: strings.Join(words, " and ")}
	}
	fail()
	return nil
}

// propagated takes the closure or function that an argument always was.
func (p *parser) propagated(n *node) {
	if n.index == 0 {
		return
	}
	if n.index == 1 {
		for t := p.popKind(kType); t != nil; t = p.popKind(kType) {
			n.kids = append(n.kids, t)
		}
		reverse(n.kids)
	}
	name := p.pop(func(n *node) bool { return n.kind == kIdentifier }).text
	full, took, ok := Demangle(name, false, int(*p.left))
	p.left.take(took)
	if ok {
		name = full
	}
	p.left.write(len(name))
	n.text += name
}
