package swift

// function handles 'F'.
func (p *parser) function() *node {
	signature := p.popKind(kSignature)
	typ := typeOf(p.functionType("", false))
	labels := p.labels(typ)
	if signature != nil {
		typ = typeOf(&node{kind: kGeneric, kids: []*node{signature, typ}})
	}
	name := p.pop(isName)
	return &node{kind: kFunction, kids: []*node{p.context()}, name: name, labels: labels, typ: typ}
}

// labels takes those of the parameters of a function type, nil where there are none.
func (p *parser) labels(typ *node) *node {
	if p.popKind(kEmpty) != nil {
		return &node{kind: kLabels}
	}
	f := typ.bare()
	if f.kind == kGeneric {
		f = f.kids[1].bare()
	}
	if f.kind != kFunctionType {
		return nil
	}
	n, named := 1, false
	if params := f.kids[0].bare(); params.kind == kTuple {
		n = len(params.kids)
	}
	l := &node{kind: kLabels}
	for range n {
		label := p.pop(func(n *node) bool { return n.is(kIdentifier, kFirst) })
		named = named || label.kind == kIdentifier
		l.kids = append(l.kids, label)
	}
	reverse(l.kids)
	if !named {
		l.kids = nil
	}
	return l
}

func (p *parser) variable() *node {
	typ := p.popType()
	labels := p.labels(typ)
	name := p.pop(isName)
	return p.accessor(&node{kind: kVariable, kids: []*node{p.context()}, name: name, labels: labels, typ: typ})
}

func (p *parser) subscript() *node {
	private := p.popKind(kPrivate)
	typ := p.popType()
	labels := p.labels(typ)
	return p.accessor(&node{kind: kSubscript, kids: []*node{p.context()}, name: private, labels: labels, typ: typ})
}

var accessors = map[byte]string{'m': "materializeForSet", 's': "setter", 'g': "getter", 'G': "global getter", 'w': "willset", 'W': "didset",
	'r': "read", 'y': "read2", 'M': "modify", 'x': "modify2", 'i': "init"}

// accessor reads which one of a variable's or subscript's functions it is.
func (p *parser) accessor(of *node) *node {
	c := p.next()
	text := accessors[c]
	switch c {
	case 'p':
		return of
	case 'a':
		text = map[byte]string{'O': "owningMutableAddressor", 'o': "nativeOwningMutableAddressor", 'P': "nativePinningMutableAddressor",
			'u': "unsafeMutableAddressor"}[p.next()]
	case 'l':
		text = map[byte]string{'O': "owningAddressor", 'o': "nativeOwningAddressor", 'p': "nativePinningAddressor", 'u': "unsafeAddressor"}[p.next()]
	}
	if text == "" {
		fail()
	}
	return &node{kind: kAccessor, text: text, kids: []*node{of}}
}

// special2 handles 'f': functions that have no name of their own.
func (p *parser) special2() *node {
	n := &node{}
	switch p.next() {
	case 'D':
		n.kind = kDeallocator
	case 'd':
		n.kind = kDestructor
	case 'E':
		n.kind, n.text = kWrapper, "__ivar_destroyer"
	case 'e':
		n.kind, n.text = kWrapper, "__ivar_initializer"
	case 'i':
		n.kind = kInitializer
	case 'P':
		n.kind, n.text = kWrapper, "property wrapper backing initializer"
	case 'W':
		n.kind, n.text = kWrapper, "property wrapper init from projected value"
	case 'A':
		n.kind, n.index = kDefaultArgument, p.index()
	case 'U', 'u':
		n.kind = kClosure
		if p.text[p.at-1] == 'u' {
			n.kind = kImplicitClosure
		}
		n.index, n.typ = p.index(), p.popType()
	case 'C', 'c':
		n.kind = kConstructor
		if p.text[p.at-1] == 'C' {
			n.kind = kAllocator
		}
		n.name = p.popKind(kPrivate)
		n.typ = p.popType()
		n.labels = p.labels(n.typ)
	default:
		fail()
	}
	n.kids = []*node{p.context()}
	return n
}

// of makes "text for" what was pushed last.
func (p *parser) of(text string) *node {
	return &node{kind: kOf, text: text, kids: []*node{p.pop(func(n *node) bool { return isEntity(n) || n.is(kOf, kAttribute) })}}
}

// metadata handles 'M'.
func (p *parser) metadata() *node {
	text := map[byte]string{'a': "type metadata accessor for ", 'r': "type metadata completion function for ",
		'i': "type metadata instantiation function for ", 'n': "nominal type descriptor for ", 'm': "metaclass for ",
		'f': "full type metadata for ", 'L': "lazy cache variable for type metadata for ", 'l': "type metadata singleton initialization cache for ",
		'I': "type metadata instantiation cache for ", 'P': "generic type metadata pattern for ", 'o': "class metadata base offset for ",
		'D': "demangling cache variable for type metadata for ", 'u': "method lookup function for ", 'U': "ObjC metadata update function for ",
		's': "ObjC resilient class stub for ", 't': "full ObjC resilient class stub for "}[p.next()]
	switch p.text[p.at-1] {
	case 'p':
		return &node{kind: kOf, text: "protocol descriptor for ", kids: []*node{p.protocol()}}
	case 'c':
		return &node{kind: kOf, text: "protocol conformance descriptor for ", kids: []*node{p.conforming()}}
	}
	if text == "" {
		fail()
	}
	return p.of(text)
}

// conforming takes a type and the protocol that a module makes it conform to.
func (p *parser) conforming() *node {
	signature := p.popKind(kSignature)
	module := p.module()
	if module == nil {
		fail()
	}
	protocol := p.protocol()
	typ := p.popType()
	if signature != nil {
		typ = typeOf(&node{kind: kGeneric, kids: []*node{signature, typ}})
	}
	return &node{kind: kWitness, kids: []*node{typ, protocol, module}}
}

var valueWitnesses = map[string]string{"al": "allocateBuffer", "ca": "assignWithCopy", "ta": "assignWithTake", "de": "deallocateBuffer",
	"xx": "destroy", "XX": "destroyBuffer", "Xx": "destroyArray", "CP": "initializeBufferWithCopyOfBuffer", "Cp": "initializeBufferWithCopy",
	"cp": "initializeWithCopy", "Tk": "initializeBufferWithTake", "tk": "initializeWithTake", "TK": "initializeBufferWithTakeOfBuffer",
	"pr": "projectBuffer", "ug": "getEnumTag", "up": "destructiveProjectEnumData", "ui": "destructiveInjectEnumTag",
	"et": "getEnumTagSinglePayload", "st": "storeEnumTagSinglePayload", "Cc": "initializeArrayWithCopy", "Tt": "initializeArrayWithTakeFrontToBack"}

func (p *parser) valueWitness() *node {
	text := valueWitnesses[string([]byte{p.next(), p.next()})]
	if text == "" {
		fail()
	}
	return &node{kind: kOf, text: text + " value witness for ", kids: []*node{p.popType()}}
}

var outlined = map[byte]string{'y': "copy", 'e': "consume", 'r': "retain", 's': "release", 'b': "init with take", 'c': "init with copy",
	'd': "assign with take", 'f': "assign with copy", 'h': "destroy", 'B': "init with take", 'C': "init with copy", 'D': "assign with take",
	'F': "assign with copy", 'H': "destroy"}

// witness handles 'W'.
func (p *parser) witness() *node {
	switch p.next() {
	case 'V':
		return p.of("value witness table for ")
	case 'P':
		return &node{kind: kOf, text: "protocol witness table for ", kids: []*node{p.conforming()}}
	case 'a':
		return &node{kind: kOf, text: "protocol witness table accessor for ", kids: []*node{p.conforming()}}
	case 'l':
		c := p.conforming()
		return &node{kind: kThunk, text: "lazy protocol witness table accessor for type ", kids: []*node{p.popType(), c}}
	case 'L':
		c := p.conforming()
		return &node{kind: kThunk, text: "lazy protocol witness table cache variable for type ", kids: []*node{p.popType(), c}}
	case 'O':
		text := outlined[p.next()]
		if text == "" {
			fail()
		}
		p.popKind(kSignature)
		return &node{kind: kOf, text: "outlined " + text + " of ", kids: []*node{p.popType()}}
	case 'Z':
		return p.once("one-time initialization function for ")
	case 'z':
		return p.once("one-time initialization token for ")
	}
	fail()
	return nil
}

// once takes the variables that are initialised together.
func (p *parser) once(text string) *node {
	n := &node{kind: kOf, text: text, kids: []*node{nil}}
	for p.popKind(kFirst) != nil {
		n.kids[0] = p.pop(isName)
	}
	if n.kids[0] == nil {
		fail()
	}
	p.context()
	return n
}
