package swift

import "slices"

// typ writes a type.
func (w *printer) typ(n *node) {
	switch n.kind {
	case kType:
		w.print(n.kids[0])
	case kBuiltin:
		w.add(n.text)
	case kBound:
		w.bound(n)
	case kTypeList:
		w.list(n.kids, ", ")
	case kTuple:
		w.add("(")
		w.list(n.kids, ", ")
		w.add(")")
	case kElement:
		w.element(n, n.text)
	case kFunctionType:
		w.function(n, nil)
	case kParam:
		w.add(parameterName(n.depth, n.index))
	case kMember:
		w.print(n.kids[0])
		w.add(".")
		if n.kids[1] != nil {
			w.print(n.kids[1])
			w.add(".")
		}
		w.add(n.text)
	case kMeta:
		w.inParentheses(n.kids[0])
		w.add(n.text)
	case kProtocols:
		if len(n.kids) == 0 {
			w.add("Any")
		}
		w.list(n.kids, " & ")
	case kPrefixed:
		w.add(n.text)
		w.print(n.kids[0])
	case kSome:
		w.add("some")
	case kOpaqueOf:
		w.add("<<opaque return type of ")
		w.print(n.kids[0])
		w.add(">>")
	case kOpaque:
		w.print(n.kids[0])
		w.add("." + itoa(n.index))
		if len(n.kids[1].kids) > 0 {
			w.add("<")
			w.print(n.kids[1])
			w.add(">")
		}
	case kGeneric:
		w.print(n.kids[0])
		if t := n.kids[1].bare(); !t.is(kFunctionType, kGeneric) {
			w.add(" ")
		}
		w.print(n.kids[1])
	case kImpl:
		w.implementation(n)
	case kConvention:
		w.add(n.text)
		w.print(n.kids[0])
	default:
		fail()
	}
}

func (w *printer) element(n *node, label string) {
	if label != "" {
		w.add(label + ": ")
	}
	w.print(n.kids[0])
	if n.index != 0 {
		w.add("...")
	}
}

// parameterName is A, B, … of the outermost declaration, A1, B1, … inside it.
func parameterName(depth, index int) string {
	name := ""
	for {
		name += string(rune('A' + index%26))
		if index /= 26; index == 0 {
			break
		}
	}
	if depth > 0 {
		name += itoa(depth)
	}
	return name
}

// bound writes a generic type with its arguments, the common ones as in a source.
func (w *printer) bound(n *node) {
	of, arguments := n.kids[0].bare(), n.kids[1].kids
	if w.short {
		w.print(of)
		return
	}
	if isNominal(of) && of.kids[0].kind == kModule && of.kids[0].text == "Swift" && of.name.kind == kIdentifier {
		switch {
		case of.name.text == "Optional" && len(arguments) == 1:
			w.inParentheses(arguments[0])
			w.add("?")
			return
		case of.name.text == "Array" && len(arguments) == 1:
			w.add("[")
			w.print(arguments[0])
			w.add("]")
			return
		case of.name.text == "Dictionary" && len(arguments) == 2:
			w.add("[")
			w.list(arguments, " : ")
			w.add("]")
			return
		}
	}
	w.print(of)
	w.add("<")
	w.list(arguments, ", ")
	w.add(">")
}

// inParentheses writes a type, in parentheses where it is made of several.
func (w *printer) inParentheses(n *node) {
	t := n.bare()
	if t.is(kFunctionType, kImpl, kPrefixed, kGeneric) || t.kind == kProtocols && len(t.kids) > 1 {
		w.add("(")
		w.print(n)
		w.add(")")
		return
	}
	w.print(n)
}

// function writes a function's type, with labels if it has a declaration.
func (w *printer) function(n *node, labels *node) {
	for _, note := range slices.Backward(n.notes) {
		if note.index != 1 {
			continue
		}
		w.add(note.text)
		if len(note.kids) > 0 {
			w.print(note.kids[0])
			w.add(" ")
		}
	}
	w.add(n.text)
	w.add("(")
	params := []*node{n.kids[0]}
	if t := n.kids[0].bare(); t.kind == kTuple {
		params = t.kids
	}
	for i, param := range params {
		if i > 0 {
			w.add(", ")
		}
		label := param.text
		if labels != nil && len(labels.kids) == len(params) {
			if label = labels.kids[i].text; label == "" {
				label = "_"
			}
		}
		if param.kind == kElement {
			w.element(param, label)
			continue
		}
		if label != "" {
			w.add(label + ": ")
		}
		w.print(param)
	}
	w.add(")")
	sending := ""
	for _, note := range n.notes {
		switch note.index {
		case 0:
			w.add(note.text)
			if len(note.kids) > 0 {
				w.add("(")
				w.print(note.kids[0])
				w.add(")")
			}
		case 2:
			sending = "sending "
		}
	}
	w.add(" -> " + sending)
	w.print(n.kids[1])
}

// signature writes <A, B where A: P>, each depth in brackets of its own.
func (w *printer) signature(n *node) {
	if w.short {
		return
	}
	w.add("<")
	for depth, count := range n.notes {
		if depth > 0 {
			w.add("><")
		}
		for i := range count.index {
			if i > 0 {
				w.add(", ")
			}
			w.add(parameterName(depth, i))
		}
	}
	for i, r := range n.kids {
		if i == 0 {
			w.add(" where ")
		} else {
			w.add(", ")
		}
		w.print(r.kids[0])
		w.add(r.text)
		w.print(r.kids[1])
	}
	w.add(">")
}

func (w *printer) implementation(n *node) {
	w.add(n.text)
	if n.typ != nil {
		w.signature(n.typ)
		w.add(" ")
	}
	for result, before := range []string{"(", ") -> ("} {
		w.add(before)
		first := true
		for _, c := range n.kids {
			if c.index != result {
				continue
			}
			if !first {
				w.add(", ")
			}
			first = false
			w.print(c)
		}
	}
	w.add(")")
}
