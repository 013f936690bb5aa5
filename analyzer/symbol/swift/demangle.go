package swift

import (
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Mangled reports whether a name looks like one of Swift's.
func Mangled(name string) bool {
	name = strings.TrimPrefix(name, "_")
	return len(name) > 2 && name[0] == '$' && (name[1] == 's' || name[1] == 'S' || name[1] == 'e')
}

// Demangle returns the readable form of a name: in full, or short, without
// types, labels and generic arguments. ok is false for what it does not know, and for what takes more than the given
// steps; took are those that it has taken.
func Demangle(name string, short bool, most int) (text string, took int, ok bool) {
	if !Mangled(name) || len(name) > maxName {
		return "", 0, false
	}
	left := budget(most)
	defer func() {
		took = most - max(0, int(left))
		if e := recover(); e != nil {
			if _, bad := e.(mangled); !bad {
				panic(e)
			}
			text, ok = "", false
		}
	}()
	return demangle(name, short, &left), 0, true
}

func demangle(name string, short bool, left *budget) string {
	p := &parser{text: strings.TrimPrefix(name, "_")[2:], left: left}
	suffix := ""
	if i := strings.IndexByte(p.text, '.'); i >= 0 {
		p.text, suffix = p.text[:i], p.text[i:]
	}
	for p.more() {
		p.push(p.operate())
	}
	w := &printer{short: short, left: left}
	w.symbol(p.stack)
	if suffix != "" && !short {
		w.add(" with unmangled suffix " + strconv.Quote(suffix))
	}
	return w.text()
}

// operate reads an operator and what belongs to it, and returns what it makes.
func (p *parser) operate() *node {
	switch c := p.next(); c {
	case 'A':
		return p.substitution()
	case 'B':
		return p.builtin()
	case 'C':
		return p.nominalType(kClass)
	case 'D':
		return p.popType().bare()
	case 'E':
		return p.extension()
	case 'F':
		return p.function()
	case 'G':
		return p.bound()
	case 'H':
		return p.conformance()
	case 'I':
		return p.implementation()
	case 'K':
		return &node{kind: kAnnotation, text: " throws"}
	case 'L':
		return p.local()
	case 'M':
		return p.metadata()
	case 'N':
		return p.of("type metadata for ")
	case 'O':
		return p.nominalType(kEnum)
	case 'P':
		return p.nominalType(kProtocol)
	case 'Q':
		return p.archetype()
	case 'R':
		return p.requirement()
	case 'S':
		return p.standardType()
	case 'T':
		return p.thunk()
	case 'V':
		return p.nominalType(kStruct)
	case 'W':
		return p.witness()
	case 'X':
		return p.special()
	case 'Y':
		return p.annotation()
	default:
		return p.operateLower(c)
	}
}

func (p *parser) operateLower(c byte) *node {
	switch c {
	case 'Z':
		return &node{kind: kStatic, kids: []*node{p.pop(isEntity)}}
	case 'a':
		return p.nominalType(kAlias)
	case 'c':
		return typeOf(p.functionType("", false))
	case 'd':
		return &node{kind: kVariadic}
	case 'f':
		return p.special2()
	case 'g':
		p.index()
		p.anyConformance()
		return &node{kind: kRetroactive}
	case 'h':
		return p.prefixed("__shared ")
	case 'i':
		return p.subscript()
	case 'l':
		return p.signature(false)
	case 'm':
		return p.meta()
	case 'n':
		return p.prefixed("__owned ")
	case 'o':
		return p.operator()
	case 'p':
		return typeOf(p.protocols())
	case 'q':
		return typeOf(p.genericIndex())
	case 'r':
		return p.signature(true)
	case 's':
		return swiftModule()
	case 't':
		return p.tuple()
	case 'u':
		signature := p.pop(func(n *node) bool { return n.kind == kSignature })
		return typeOf(&node{kind: kGeneric, kids: []*node{signature, p.popType()}})
	case 'v':
		return p.variable()
	case 'w':
		return p.valueWitness()
	case 'x':
		return typeOf(&node{kind: kParam})
	case 'y':
		return &node{kind: kEmpty}
	case 'z':
		return p.prefixed("inout ")
	case '_':
		return &node{kind: kFirst}
	}
	if !isDigit(c) {
		fail()
	}
	p.at--
	return p.identifier()
}

func (p *parser) meta() *node {
	of := p.popType()
	suffix := ".Type"
	if of.bare().is(kProtocol, kProtocols) {
		suffix = ".Protocol"
	}
	return typeOf(&node{kind: kMeta, text: suffix, kids: []*node{of}})
}
