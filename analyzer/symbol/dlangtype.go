package symbol

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// basicD are D's basic types.
var basicD = map[byte]string{
	'v': "void", 'g': "byte", 'h': "ubyte", 's': "short", 't': "ushort", 'i': "int", 'k': "uint", 'l': "long", 'm': "ulong",
	'f': "float", 'd': "double", 'e': "real", 'o': "ifloat", 'p': "idouble", 'j': "ireal", 'q': "cfloat", 'r': "cdouble",
	'c': "creal", 'b': "bool", 'a': "char", 'u': "wchar", 'w': "dchar", 'n': "typeof(null)",
}

// kind reads a type.
func (d *dlang) kind() (string, error) {
	if err := d.enter(); err != nil {
		return "", err
	}
	defer d.leave()
	c := d.peek()
	if c == 'Q' {
		return d.elsewhere(d.kind)
	}
	d.at++
	if text, ok := basicD[c]; ok {
		return text, nil
	}
	switch c {
	case 'x':
		return d.around("const(", ")")
	case 'y':
		return d.around("immutable(", ")")
	case 'O':
		return d.around("shared(", ")")
	case 'A':
		return d.around("", "[]")
	case 'C', 'S', 'E', 'T':
		return d.qualified()
	case 'N':
		return d.extended()
	case 'G':
		from := d.at
		for d.peek() >= '0' && d.peek() <= '9' {
			d.at++
		}
		return d.around("", "["+d.text[from:d.at]+"]")
	case 'H':
		return d.associative()
	case 'P':
		if strings.IndexByte("FUWVRY", d.peek()) >= 0 && d.peek() != 0 {
			return d.callable("function")
		}
		return d.around("", "*")
	case 'D':
		modifiers := d.modifiers()
		text, err := d.callable("delegate")
		return text + modifiers, err
	case 'F', 'U', 'W', 'V', 'R', 'Y':
		d.at--
		return d.callable("")
	}
	return "", errDLang
}

// around reads a type and puts something around it.
func (d *dlang) around(before, after string) (string, error) {
	text, err := d.kind()
	if err != nil {
		return "", err
	}
	return d.made(before + text + after)
}

func (d *dlang) extended() (string, error) {
	c := d.peek()
	d.at++
	switch c {
	case 'g':
		return d.around("inout(", ")")
	case 'h':
		return d.around("__vector(", ")")
	case 'n':
		return "noreturn", nil
	}
	return "", errDLang
}

func (d *dlang) associative() (string, error) {
	key, err := d.kind()
	if err != nil {
		return "", err
	}
	return d.around("", "["+key+"]")
}

// callable reads a function's type with its return type.
func (d *dlang) callable(what string) (string, error) {
	if d.peek() == 'Q' {
		return d.elsewhere(func() (string, error) { return d.callable(what) })
	}
	if d.peek() != 'F' { // other calling conventions are rare
		return "", errDLang
	}
	d.at++
	parameters, err := d.parameters()
	if err != nil {
		return "", err
	}
	result, err := d.kind()
	if what != "" {
		what = " " + what
	}
	if err != nil {
		return "", err
	}
	return d.made(result + "(" + parameters + ")" + what)
}

// value reads a template argument that is a value of the type that begins with of.
func (d *dlang) value(of byte) (string, error) {
	if err := d.enter(); err != nil {
		return "", err
	}
	defer d.leave()
	c := d.peek()
	switch {
	case c == 'n':
		d.at++
		return "null", nil
	case c == 'N':
		d.at++
		text, err := d.integer(of)
		return "-" + text, err
	case c == 'i' || c >= '0' && c <= '9':
		if c == 'i' {
			d.at++
		}
		return d.integer(of)
	case c == 'a' || c == 'w' || c == 'd':
		return d.quoted()
	}
	return "", errDLang
}

// suffixes are those of integers.
var suffixes = map[byte]string{'h': "u", 't': "u", 'k': "u", 'l': "L", 'm': "uL"}

func (d *dlang) integer(of byte) (string, error) {
	from := d.at
	for d.peek() >= '0' && d.peek() <= '9' {
		d.at++
	}
	n, err := strconv.ParseUint(d.text[from:d.at], 10, 64)
	switch {
	case err != nil:
		return "", errDLang
	case of == 'b' && n < 2:
		return strconv.FormatBool(n == 1), nil
	case of == 'a' && n >= ' ' && n < 0x7f:
		return "'" + string(rune(n)) + "'", nil
	case strings.IndexByte("auw", of) >= 0:
		return "", errDLang
	}
	return d.text[from:d.at] + suffixes[of], nil
}

// quoted reads a string: its kind, its length, its bytes in hexadecimal.
func (d *dlang) quoted() (string, error) {
	kind := d.peek()
	d.at++
	n, err := d.number()
	if err != nil || d.peek() != '_' || 2*n > len(d.text)-d.at-1 {
		return "", errDLang
	}
	d.at++
	raw, err := hex.DecodeString(d.text[d.at : d.at+2*n])
	if err != nil {
		return "", errDLang
	}
	d.at += 2 * n
	var text strings.Builder
	text.WriteByte('"')
	for _, b := range raw {
		if b >= ' ' && b < 0x7f {
			text.WriteByte(b)
		} else {
			fmt.Fprintf(&text, "\\x%02x", b)
		}
	}
	if text.WriteByte('"'); kind != 'a' {
		text.WriteByte(kind)
	}
	return d.made(text.String())
}
