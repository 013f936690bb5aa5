package symbol

import (
	"errors"
	"strconv"
	"strings"
)

// dlang reads D's mangled names (dlang.org/spec/abi.html, "Name Mangling"):
// qualified names, functions with their parameters, template instances, back
// references. What it doesn't know, such as template arguments that are
// structures or floating-point numbers, makes it give up, and the name stays as it is.
type dlang struct {
	text  string
	at    int
	short bool
	depth int
	left  int // work: back references can repeat each other, and what they lead to can be long
}

var errDLang = errors.New("not a D name that is understood")

const (
	maxDDepth = 64
	dStep     = 16 // work of a step, in bytes of text
)

// demangleD returns the readable form of a D name if that takes no more than the given work, and what it took.
func demangleD(name string, short bool, most int) (text string, took int, ok bool) {
	d := dlang{text: name, at: 2, short: short, left: dStep * most}
	text, ok = d.symbolName()
	return text, most - max(0, d.left)/dStep, ok
}

func (d *dlang) symbolName() (string, bool) {
	if d.text == "_Dmain" {
		return "D main", true
	}
	text, err := d.qualified()
	if err != nil || len(text) > 1<<maxDemangledPow {
		return "", false
	}
	if d.peek() == 'Z' {
		return special(text), d.at+1 == len(d.text)
	}
	if _, err := d.kind(); err != nil || d.at != len(d.text) {
		return "", false
	}
	return text, true
}

// special names what a compiler makes for a type or module.
func special(text string) string {
	for _, s := range [][2]string{
		{".__init", "initializer for "}, {".__vtbl", "vtable for "}, {".__Class", "ClassInfo for "},
		{".__Interface", "Interface for "}, {".__ModuleInfo", "ModuleInfo for "},
	} {
		if of, ok := strings.CutSuffix(text, s[0]); ok {
			return s[1] + of
		}
	}
	return text
}

func (d *dlang) peek() byte {
	if d.at < len(d.text) {
		return d.text[d.at]
	}
	return 0
}

// enter counts a step inwards; leave must follow.
func (d *dlang) enter() error {
	d.depth++
	if d.left -= dStep; d.left < 0 || d.depth > maxDDepth {
		return errDLang
	}
	return nil
}

// made counts text that was put together.
func (d *dlang) made(text string) (string, error) {
	if d.left -= len(text); d.left < 0 || len(text) > 1<<maxDemangledPow {
		return "", errDLang
	}
	return text, nil
}

// join puts parts together, if what comes of it is not too long.
func (d *dlang) join(parts []string, between string) (string, error) {
	length := 0
	for _, part := range parts {
		length += len(part) + len(between)
	}
	if d.left -= length; d.left < 0 || length > 2<<maxDemangledPow {
		return "", errDLang
	}
	return strings.Join(parts, between), nil
}

func (d *dlang) leave() { d.depth-- }

func (d *dlang) number() (int, error) {
	from := d.at
	for d.peek() >= '0' && d.peek() <= '9' {
		d.at++
	}
	d.left -= d.at - from
	n, err := strconv.Atoi(d.text[from:d.at])
	if err != nil || n > len(d.text) {
		return 0, errDLang
	}
	return n, nil
}

// reference returns where a back reference at d.at leads.
func (d *dlang) reference() (int, error) {
	from, n := d.at, 0
	for d.at++; ; d.at++ {
		switch c := d.peek(); {
		case n > len(d.text):
			return 0, errDLang
		case c >= 'A' && c <= 'Z':
			n = 26*n + int(c-'A')
			continue
		case c >= 'a' && c <= 'z':
			n = 26*n + int(c-'a')
			d.at++
			if n == 0 || n > from {
				return 0, errDLang
			}
			return from - n, nil
		}
		return 0, errDLang
	}
}

// elsewhere reads what a back reference leads to.
func (d *dlang) elsewhere(read func() (string, error)) (string, error) {
	to, err := d.reference()
	if err != nil {
		return "", err
	}
	back := d.at
	d.at = to
	text, err := read()
	d.at = back
	return text, err
}

// qualified reads names and, within them, functions, as long as there are any.
func (d *dlang) qualified() (string, error) {
	if err := d.enter(); err != nil {
		return "", err
	}
	defer d.leave()
	var parts []string
	for d.nameFollows() {
		part, err := d.name()
		if err != nil {
			return "", err
		}
		before := d.at
		if function, ok := d.function(); ok {
			part += function
		} else {
			d.at = before
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "", errDLang
	}
	return d.join(parts, ".")
}

// nameFollows tells a name from a type: a back reference is either.
func (d *dlang) nameFollows() bool {
	c := d.peek()
	if c != 'Q' {
		return c >= '0' && c <= '9' || strings.HasPrefix(d.text[d.at:], "__T") || strings.HasPrefix(d.text[d.at:], "__U")
	}
	before := d.at
	to, err := d.reference()
	d.at = before
	return err == nil && d.text[to] >= '0' && d.text[to] <= '9'
}

func (d *dlang) name() (string, error) {
	if err := d.enter(); err != nil {
		return "", err
	}
	defer d.leave()
	if d.peek() == 'Q' {
		return d.elsewhere(d.name)
	}
	if rest := d.text[d.at:]; strings.HasPrefix(rest, "__T") || strings.HasPrefix(rest, "__U") {
		return d.template()
	}
	if d.peek() == '0' { // without a name
		d.at++
		return "", nil
	}
	n, err := d.number()
	if err != nil || n > len(d.text)-d.at {
		return "", errDLang
	}
	text := d.text[d.at : d.at+n]
	if strings.HasPrefix(text, "__T") || strings.HasPrefix(text, "__U") { // of compilers before 2018
		return d.template()
	}
	d.at += n
	switch text {
	case "__ctor":
		return "this", nil
	case "__dtor":
		return "~this", nil
	}
	return text, nil
}

// template reads "__T name arguments Z".
func (d *dlang) template() (string, error) {
	d.at += 3
	name, err := d.name()
	var arguments []string
	for err == nil && d.peek() != 'Z' {
		var argument string
		argument, err = d.argument()
		arguments = append(arguments, argument)
	}
	if err != nil {
		return "", err
	}
	d.at++
	if d.short {
		return name, nil
	}
	list, err := d.join(arguments, ", ")
	if err != nil {
		return "", err
	}
	return d.made(name + "!(" + list + ")")
}

func (d *dlang) argument() (string, error) {
	c := d.peek()
	d.at++
	switch c {
	case 'T':
		return d.kind()
	case 'S':
		return d.symbol()
	case 'V':
		of := d.peek()
		if _, err := d.kind(); err != nil {
			return "", err
		}
		return d.value(of)
	}
	return "", errDLang
}

// symbol reads a name, or a whole mangled one.
func (d *dlang) symbol() (string, error) {
	whole := strings.HasPrefix(d.text[d.at:], "_D")
	if whole {
		d.at += 2
	}
	text, err := d.qualified()
	if whole && err == nil {
		if d.peek() == 'Z' {
			d.at++
		} else {
			_, err = d.kind()
		}
	}
	return text, err
}

// function reads a function's type without its return type; ok is false where there is none.
func (d *dlang) function() (text string, ok bool) {
	modifiers := ""
	if d.peek() == 'M' {
		d.at++
		modifiers = d.modifiers()
	}
	if strings.IndexByte("FUWVRY", d.peek()) < 0 || d.peek() == 0 {
		return "", false
	}
	d.at++
	parameters, err := d.parameters()
	if err != nil {
		return "", false
	}
	if d.short {
		return "", true
	}
	return "(" + parameters + ")" + modifiers, true
}

// maxModifiers is longer than all of them together.
const maxModifiers = 64

// modifiers reads those of a method's this.
func (d *dlang) modifiers() string {
	text := ""
	for {
		rest := d.text[d.at:]
		if len(text) > maxModifiers {
			return text
		}
		switch {
		case strings.HasPrefix(rest, "Ng"):
			text += " inout"
			d.at++
		case strings.HasPrefix(rest, "x"):
			text += " const"
		case strings.HasPrefix(rest, "y"):
			text += " immutable"
		case strings.HasPrefix(rest, "O"):
			text += " shared"
		default:
			return text
		}
		d.at++
	}
}

// storage are the classes of parameters.
var storage = map[byte]string{'I': "in ", 'J': "out ", 'K': "ref ", 'L': "lazy ", 'M': "scope "}

func (d *dlang) parameters() (string, error) {
	for d.peek() == 'N' && d.at+1 < len(d.text) && strings.IndexByte("abcdefijlm", d.text[d.at+1]) >= 0 {
		d.at += 2 // pure, nothrow and the like
	}
	var all []string
	for {
		switch d.peek() {
		case 'Z':
			d.at++
			return d.join(all, ", ")
		case 'X':
			d.at++
			list, err := d.join(all, ", ")
			return list + "...", err
		case 'Y':
			d.at++
			return d.join(append(all, "..."), ", ")
		case 0:
			return "", errDLang
		}
		text, err := "", error(nil)
		for {
			class, ok := storage[d.peek()]
			if strings.HasPrefix(d.text[d.at:], "Nk") {
				class, ok = "return ", true
				d.at++
			}
			if !ok {
				break
			}
			if text, err = d.made(text + class); err != nil {
				return "", err
			}
			d.at++
		}
		kind, err := d.kind()
		if err != nil {
			return "", err
		}
		all = append(all, text+kind)
	}
}
