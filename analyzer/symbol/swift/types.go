package swift

// standard are the types of the standard library that have a letter.
var standard = map[byte]struct {
	kind kind
	name string
}{
	'A': {kStruct, "AutoreleasingUnsafeMutablePointer"}, 'a': {kStruct, "Array"}, 'b': {kStruct, "Bool"},
	'D': {kStruct, "Dictionary"}, 'd': {kStruct, "Double"}, 'f': {kStruct, "Float"}, 'h': {kStruct, "Set"},
	'I': {kStruct, "DefaultIndices"}, 'i': {kStruct, "Int"}, 'J': {kStruct, "Character"}, 'N': {kStruct, "ClosedRange"},
	'n': {kStruct, "Range"}, 'O': {kStruct, "ObjectIdentifier"}, 'P': {kStruct, "UnsafePointer"},
	'p': {kStruct, "UnsafeMutablePointer"}, 'R': {kStruct, "UnsafeBufferPointer"}, 'r': {kStruct, "UnsafeMutableBufferPointer"},
	'S': {kStruct, "String"}, 's': {kStruct, "Substring"}, 'u': {kStruct, "UInt"}, 'V': {kStruct, "UnsafeRawPointer"},
	'v': {kStruct, "UnsafeMutableRawPointer"}, 'W': {kStruct, "UnsafeRawBufferPointer"}, 'w': {kStruct, "UnsafeMutableRawBufferPointer"},
	'q': {kEnum, "Optional"}, 'B': {kProtocol, "BinaryFloatingPoint"}, 'E': {kProtocol, "Encodable"}, 'e': {kProtocol, "Decodable"},
	'F': {kProtocol, "FloatingPoint"}, 'G': {kProtocol, "RandomNumberGenerator"}, 'H': {kProtocol, "Hashable"}, 'j': {kProtocol, "Numeric"},
	'K': {kProtocol, "BidirectionalCollection"}, 'k': {kProtocol, "RandomAccessCollection"}, 'L': {kProtocol, "Comparable"},
	'l': {kProtocol, "Collection"}, 'M': {kProtocol, "MutableCollection"}, 'm': {kProtocol, "RangeReplaceableCollection"},
	'Q': {kProtocol, "Equatable"}, 'T': {kProtocol, "Sequence"}, 't': {kProtocol, "IteratorProtocol"}, 'U': {kProtocol, "UnsignedInteger"},
	'X': {kProtocol, "RangeExpression"}, 'x': {kProtocol, "Strideable"}, 'Y': {kProtocol, "RawRepresentable"},
	'y': {kProtocol, "StringProtocol"}, 'Z': {kProtocol, "SignedInteger"}, 'z': {kProtocol, "BinaryInteger"},
}

// concurrent are those after "Sc".
var concurrent = map[byte]struct {
	kind kind
	name string
}{
	'A': {kProtocol, "Actor"}, 'C': {kStruct, "CheckedContinuation"}, 'c': {kStruct, "UnsafeContinuation"}, 'E': {kStruct, "CancellationError"},
	'e': {kStruct, "UnownedSerialExecutor"}, 'F': {kProtocol, "Executor"}, 'f': {kProtocol, "SerialExecutor"}, 'G': {kStruct, "TaskGroup"},
	'g': {kStruct, "ThrowingTaskGroup"}, 'h': {kProtocol, "TaskExecutor"}, 'I': {kProtocol, "AsyncIteratorProtocol"},
	'i': {kProtocol, "AsyncSequence"}, 'J': {kStruct, "UnownedJob"}, 'M': {kClass, "MainActor"}, 'P': {kStruct, "TaskPriority"},
	'S': {kStruct, "AsyncStream"}, 's': {kStruct, "AsyncThrowingStream"}, 'T': {kStruct, "Task"}, 't': {kStruct, "UnsafeCurrentTask"},
}

func swiftModule() *node { return &node{kind: kModule, text: "Swift"} }

func nominal(k kind, context *node, name *node) *node {
	return &node{kind: k, kids: []*node{context}, name: name}
}

// standardType handles 'S'.
func (p *parser) standardType() *node {
	switch {
	case p.nextIf('o'):
		return &node{kind: kModule, text: "__C"}
	case p.nextIf('C'):
		return &node{kind: kModule, text: "__C_Synthesized"}
	case p.nextIf('g'):
		optional := typeOf(nominal(kEnum, swiftModule(), &node{kind: kIdentifier, text: "Optional"}))
		return p.remember(typeOf(&node{kind: kBound, kids: []*node{optional, {kind: kTypeList, kids: []*node{p.popType()}}}}))
	}
	repeat := p.natural()
	table := standard
	if p.nextIf('c') {
		table = concurrent
	}
	known, ok := table[p.next()]
	if !ok || repeat > maxRepeat {
		fail()
	}
	n := typeOf(nominal(known.kind, swiftModule(), &node{kind: kIdentifier, text: known.name}))
	for ; repeat > 1; repeat-- {
		p.push(n)
	}
	return n
}

// context takes where something is declared.
func (p *parser) context() *node {
	if n := p.module(); n != nil {
		return n
	}
	if n := p.popKind(kType); n != nil {
		if n = n.bare(); !isContext(n) && n.kind != kBound {
			fail()
		}
		return n
	}
	return p.pop(isContext)
}

func (p *parser) module() *node {
	if n := p.popKind(kIdentifier); n != nil {
		return &node{kind: kModule, text: n.text}
	}
	return p.popKind(kModule)
}

func (p *parser) nominalType(k kind) *node {
	name := p.pop(isName)
	return p.remember(typeOf(nominal(k, p.context(), name)))
}

// popNominal takes a type that has a declaration.
func (p *parser) popNominal() *node {
	n := p.popType().bare()
	if !isNominal(n) {
		fail()
	}
	return n
}

func (p *parser) protocol() *node {
	if n := p.popKind(kType); n != nil {
		if n.bare().kind != kProtocol {
			fail()
		}
		return n
	}
	name := p.pop(isName)
	return typeOf(nominal(kProtocol, p.context(), name))
}

func (p *parser) extension() *node {
	signature := p.popKind(kSignature)
	module := p.module()
	if module == nil {
		fail()
	}
	return &node{kind: kExtension, text: module.text, kids: []*node{p.popNominal()}, typ: signature}
}

// list takes what was pushed after an empty list, or after a mark behind the first.
func (p *parser) list(take func() *node) (out []*node) {
	if p.popKind(kEmpty) != nil {
		return nil
	}
	for first := false; !first; {
		first = p.popKind(kFirst) != nil
		out = append(out, take())
	}
	reverse(out)
	return out
}

func reverse(list []*node) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

func (p *parser) tuple() *node {
	return typeOf(&node{kind: kTuple, kids: p.list(func() *node {
		e := &node{kind: kElement}
		if p.popKind(kVariadic) != nil {
			e.index = 1
		}
		if label := p.popKind(kIdentifier); label != nil {
			e.text = label.text
		}
		e.kids = []*node{p.popType()}
		return e
	})})
}

// bound handles 'G': lists of arguments, of the innermost type last.
func (p *parser) bound() *node {
	lists := p.argumentLists()
	n := p.applied(p.popNominal(), lists)
	return p.remember(typeOf(n))
}

// argumentLists takes them with the innermost type's first.
func (p *parser) argumentLists() (lists [][]*node) {
	for p.popKind(kRetroactive) != nil {
	}
	for {
		var list []*node
		for n := p.popKind(kType); n != nil; n = p.popKind(kType) {
			list = append(list, n)
		}
		reverse(list)
		lists = append(lists, list)
		if p.popKind(kEmpty) != nil {
			return lists
		}
		p.pop(func(n *node) bool { return n.kind == kFirst })
	}
}

// applied gives a type and what it is declared in their arguments.
func (p *parser) applied(n *node, lists [][]*node) *node {
	var list []*node
	if !n.is(kExtension, kStatic, kVariable, kSubscript, kAccessor, kClosure, kImplicitClosure, kDefaultArgument, kInitializer) {
		list, lists = lists[0], lists[1:]
	}
	if len(lists) > 0 {
		if len(n.kids) == 0 || n.kids[0].is(kModule) {
			fail()
		}
		inner := *n
		inner.kids = []*node{p.applied(n.kids[0].bare(), lists)}
		n = &inner
	}
	if len(list) == 0 || !isNominal(n) {
		return n
	}
	return &node{kind: kBound, kids: []*node{typeOf(n), {kind: kTypeList, kids: list}}}
}

func (p *parser) builtin() *node {
	number := func() string {
		n := p.index() - 1
		if n <= 0 {
			fail()
		}
		return itoa(n)
	}
	text := ""
	switch p.next() {
	case 'b':
		text = "BridgeObject"
	case 'B':
		text = "UnsafeValueBuffer"
	case 'f':
		text = "FPIEEE" + number()
	case 'i':
		text = "Int" + number()
	case 'I':
		text = "IntLiteral"
	case 'o':
		text = "NativeObject"
	case 'O':
		text = "UnknownObject"
	case 'p':
		text = "RawPointer"
	case 't':
		text = "SILToken"
	case 'w':
		text = "Word"
	case 'j':
		text = "Job"
	case 'e':
		text = "Executor"
	case 'D':
		text = "DefaultActorStorage"
	case 'c':
		text = "RawUnsafeContinuation"
	default:
		fail()
	}
	return p.remember(typeOf(&node{kind: kBuiltin, text: "Builtin." + text}))
}

// protocols handles 'p' and its like: a composition of protocols.
func (p *parser) protocols() *node {
	return &node{kind: kProtocols, kids: p.list(p.protocol)}
}

// special handles 'X'.
func (p *parser) special() *node {
	c := p.next()
	switch c {
	case 'E', 'c', 'f', 'K', 'A', 'B', 'C', 'L', 'U':
		if c != 'c' {
			before := map[byte]string{'f': "@convention(thin) ", 'K': "@autoclosure ", 'A': "@autoclosure ", 'B': "@convention(block) ",
				'C': "@convention(c) ", 'L': "@convention(block) "}[c]
			return typeOf(p.functionType(before, c == 'E' || c == 'U'))
		}
		class, list := p.popType(), p.protocols()
		list.kids = append([]*node{class}, list.kids...)
		return typeOf(list)
	case 'l':
		list := p.protocols()
		list.kids = append(list.kids, &node{kind: kBuiltin, text: "Swift.AnyObject"})
		return typeOf(list)
	case 'o', 'u', 'w':
		text := map[byte]string{'o': "unowned ", 'u': "unowned(unsafe) ", 'w': "weak "}[c]
		return typeOf(&node{kind: kPrefixed, text: text, kids: []*node{p.popType()}})
	case 'p':
		return typeOf(&node{kind: kMeta, text: ".Type", kids: []*node{p.popType()}})
	case 'D':
		p.popType()
		return typeOf(&node{kind: kBuiltin, text: "Self"})
	case 'b':
		return typeOf(&node{kind: kPrefixed, text: "@box ", kids: []*node{p.popType()}})
	}
	fail()
	return nil
}

// annotation handles 'Y' and what else is said of a function type.
func (p *parser) annotation() *node {
	text, before := "", 1
	var about []*node
	switch p.next() {
	case 'a':
		text, before = " async", 0
	case 'b':
		text = "@Sendable "
	case 'c':
		text, about = "@", []*node{p.popType()}
	case 'K':
		text, before, about = " throws", 0, []*node{p.popType()}
	case 'A':
		text = "@isolated(any) "
	case 'C':
		text = "nonisolated(nonsending) "
	case 'T':
		return &node{kind: kAnnotation, index: 2}
	case 'j':
		text = differentiable[p.next()]
		if text == "" {
			fail()
		}
	case 'i':
		return p.prefixed("isolated ")
	case 'k':
		return p.prefixed("@noDerivative ")
	case 't':
		return p.prefixed("_const ")
	case 'u':
		return p.prefixed("sending ")
	default:
		fail()
	}
	return &node{kind: kAnnotation, text: text, index: before, kids: about}
}

func (p *parser) prefixed(text string) *node {
	return typeOf(&node{kind: kPrefixed, text: text, kids: []*node{p.popType()}})
}

// functionType takes what is said of it, parameters and result. Text stands before it.
func (p *parser) functionType(text string, plain bool) *node {
	f := &node{kind: kFunctionType, text: text}
	if plain {
		f.index = 1
	}
	for n := p.popKind(kAnnotation); n != nil; n = p.popKind(kAnnotation) {
		f.notes = append([]*node{n}, f.notes...)
	}
	params := p.parameters()
	f.kids = []*node{params, p.parameters()}
	return f
}

func (p *parser) parameters() *node {
	if p.popKind(kEmpty) != nil {
		return typeOf(&node{kind: kTuple})
	}
	return p.popType()
}
