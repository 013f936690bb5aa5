package swift

import (
	"strings"
)

// printer writes a tree as swift-demangle does. Names refer back to parts of
// themselves, so that a short name can have a result without bound.
type printer struct {
	b     strings.Builder
	short bool
	left  *budget
	depth int
}

const maxDepth = 400

func (w *printer) text() string { return w.b.String() }

func (w *printer) add(text string) {
	if w.b.Len()+len(text) > maxName {
		fail()
	}
	w.left.write(len(text))
	w.b.WriteString(text)
}

// symbol writes what is left on the stack: first what is said of the entity, the last said first.
func (w *printer) symbol(stack []*node) {
	var said, rest []*node
	for _, n := range stack {
		if n.is(kAttribute, kForwarder) {
			said = append(said, n)
		} else {
			rest = append(rest, n)
		}
	}
	if len(rest) > 1 || len(rest)+len(said) == 0 {
		fail()
	}
	for i := len(said) - 1; i >= 0; i-- {
		w.said(said[i], i > 0 || len(rest) > 0)
	}
	for _, n := range rest {
		if !isEntity(n) && !n.is(kOf, kThunk) && n.kind < kBuiltin || n.is(kEmpty, kFirst, kSignature) {
			fail()
		}
		w.print(n)
	}
}

func (w *printer) said(n *node, more bool) {
	switch {
	case n.kind == kForwarder:
		w.add(n.text)
		if more {
			w.add(" for ")
		}
	case n.index == 1 && w.short: // what it was specialized for
	case n.index == 1:
		text := n.text
		if len(n.kids) == 0 && strings.HasPrefix(text, "function") {
			text = strings.TrimSuffix(text, " <")
		}
		w.add(text)
		w.list(n.kids, ", ")
		if len(n.kids) > 0 || !strings.HasPrefix(text, "function") {
			w.add(">")
		}
		w.add(" of ")
	default:
		w.add(n.text)
	}
}

func (w *printer) list(list []*node, between string) {
	for i, n := range list {
		if i > 0 {
			w.add(between)
		}
		w.print(n)
	}
}

func (w *printer) enter() {
	w.left.take(1)
	w.depth++
	if w.depth > maxDepth {
		fail()
	}
}

// print writes a node.
func (w *printer) print(n *node) {
	w.enter()
	defer func() { w.depth-- }()
	if isContext(n) {
		w.context(n, false)
		return
	}
	if n.kind >= kType && n.kind <= kConvention {
		w.typ(n)
		return
	}
	switch n.kind {
	case kIdentifier:
		w.add(n.text)
	case kInfix:
		w.add(n.text + " infix")
	case kPrefix:
		w.add(n.text + " prefix")
	case kPostfix:
		w.add(n.text + " postfix")
	case kLocal:
		w.print(n.kids[0])
		w.add(" #" + itoa(n.index+1))
	case kPrivate:
		w.add("(")
		if len(n.kids) > 1 {
			w.print(n.kids[1])
			w.add(" ")
		}
		w.add("in " + n.kids[0].text + ")")
	case kRelated:
		w.add("related decl '" + n.text + "' for ")
		w.print(n.kids[0])
	case kOf:
		w.add(n.text)
		w.print(n.kids[0])
	case kThunk:
		w.thunk(n)
	case kWitness:
		w.conforming(n)
	case kSignature:
		w.signature(n)
	case kSuffix:
		w.changed(n)
	default:
		fail()
	}
}

func (w *printer) thunk(n *node) {
	w.add(n.text)
	switch {
	case n.labels != nil: // reabstraction
		if n.typ != nil && !w.short {
			w.signature(n.typ)
			w.add(" ")
		}
		w.add("from ")
		w.print(n.kids[0])
		w.add(" to ")
		w.print(n.kids[1])
	case n.name != nil: // a protocol's witness
		w.print(n.kids[0])
		w.add(" in conformance ")
		w.print(n.kids[1])
	default:
		w.print(n.kids[0])
		w.add(" and conformance ")
		w.print(n.kids[1])
	}
}

func (w *printer) conforming(n *node) {
	w.print(n.kids[0])
	w.add(" : ")
	w.print(n.kids[1])
	w.add(" in ")
	w.print(n.kids[2])
}

// changed writes one argument of a specialized function.
func (w *printer) changed(n *node) {
	w.add(n.text)
	if n.index == 1 {
		w.add(", Argument Types : [")
		w.list(n.kids, ", ")
		w.add("]")
	}
	if n.index > 0 {
		w.add("]")
	}
}

// style is how an entity's type is shown.
type style int

const (
	noType style = iota
	withColon
	asFunction
)

// form is how an entity is written.
type form struct {
	style style
	named bool
	name  string // in place of the entity's own
	extra string // after the name, or before "in" where it has several words
}

func (w *printer) form(n *node) form {
	switch n.kind {
	case kFunction:
		return form{style: asFunction, named: true}
	case kVariable:
		return form{style: withColon, named: true}
	case kSubscript:
		return form{style: asFunction, name: "subscript"}
	case kConstructor:
		return form{style: asFunction, extra: "init"}
	case kAllocator:
		if isClass(n.kids[0]) {
			return form{style: asFunction, extra: "__allocating_init"}
		}
		return form{style: asFunction, extra: "init"}
	case kDestructor:
		return form{extra: "deinit"}
	case kDeallocator:
		if isClass(n.kids[0]) {
			return form{extra: "__deallocating_deinit"}
		}
		return form{extra: "deinit"}
	case kClosure:
		return form{style: asFunction, extra: "closure #" + itoa(n.index+1)}
	case kImplicitClosure:
		return form{style: asFunction, extra: "implicit closure #" + itoa(n.index+1)}
	case kInitializer:
		return form{extra: "variable initialization expression"}
	case kDefaultArgument:
		return form{extra: "default argument " + itoa(n.index)}
	case kWrapper:
		return form{extra: n.text}
	}
	return form{named: true} // types
}

func isClass(n *node) bool {
	for n.kind == kExtension || n.kind == kBound {
		n = n.kids[0].bare()
	}
	return n.kind == kClass
}

// context writes an entity or what it is declared in. Before a dot only what is
// short can stand: else it writes nothing and returns the entity, to be told of behind "in".
func (w *printer) context(n *node, prefix bool) (after *node) {
	w.enter()
	defer func() { w.depth-- }()
	switch n.kind {
	case kModule:
		w.add(n.text)
		return nil
	case kBound:
		w.typ(n)
		return nil
	case kStatic:
		if prefix {
			return n
		}
		w.add("static ")
		w.print(n.kids[0])
		return nil
	case kExtension:
		w.add("(extension in " + n.text + "):")
		w.print(n.kids[0])
		if n.typ != nil && !w.short {
			w.signature(n.typ)
		}
		return nil
	case kAccessor:
		f := w.form(n.kids[0])
		f.extra = n.text
		if n.kids[0].kind == kSubscript {
			f.style = asFunction
		}
		return w.entity(n.kids[0], f, prefix)
	}
	return w.entity(n, w.form(n), prefix)
}

// entity writes "context.name.extra type", or "extra of name type in context".
func (w *printer) entity(n *node, f form, prefix bool) (after *node) {
	words := strings.Contains(f.extra, " ") || f.named && n.name != nil && n.name.kind == kLocal
	if prefix && (f.style != noType && !w.short || words) {
		if f.extra != "" && n.is(kVariable, kSubscript) {
			return &node{kind: kAccessor, text: f.extra, kids: []*node{n}}
		}
		return n
	}
	if words {
		after = n.kids[0]
	} else {
		before := w.b.Len()
		after = w.context(n.kids[0], true)
		if w.b.Len() != before {
			w.add(".")
		}
	}
	w.named(n, f, words)
	if n.typ != nil && f.style != noType && !w.short {
		w.entityType(n, f.style, words && n.is(kClosure, kImplicitClosure))
	}
	if !prefix && after != nil {
		if n.is(kDefaultArgument, kInitializer, kWrapper) {
			w.add(" of ")
		} else {
			w.add(" in ")
		}
		w.print(after)
		return nil
	}
	return after
}

func (w *printer) named(n *node, f form, words bool) {
	extra := f.extra
	if f.named || f.name != "" {
		if extra != "" && words {
			w.add(extra + " of ")
			extra = ""
		}
		if f.name != "" {
			w.add(f.name)
		} else {
			w.print(n.name)
		}
		if extra != "" {
			w.add(".")
		}
	} else if n.is(kConstructor, kAllocator) && n.name != nil {
		w.print(n.name)
		w.add(".")
	}
	w.add(extra)
}

// entityType writes what comes behind a name.
func (w *printer) entityType(n *node, s style, space bool) {
	t, labels := n.typ.bare(), n.labels
	f := t
	if f.kind == kGeneric {
		f = f.kids[1].bare()
	}
	if f.kind != kFunctionType || s == withColon {
		w.add(" : ")
		w.print(t)
		return
	}
	if space || n.name != nil && n.name.is(kInfix, kPrefix, kPostfix, kLocal) && n.name.kind == kLocal {
		w.add(" ")
	}
	if t.kind == kGeneric {
		w.print(t.kids[0])
	}
	w.function(f, labels)
}
