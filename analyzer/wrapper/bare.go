package wrapper

import "strings"

// Bare is a function's name without what comes and goes with compilers and the form
// of names: its return type, parameters, template arguments, and what a compiler adds to the
// names of parts and copies ("f.part.0"). Rust's names that begin with "<" stay as they are.
func Bare(name string) string {
	if strings.HasPrefix(name, "<") || strings.HasPrefix(name, "_<") || !strings.ContainsAny(name, "<( .[") {
		return name
	}
	return trimClone(withoutReturn(withoutArguments(name)))
}

// withoutArguments leaves out what stands in <> and (), other than in operators' names.
func withoutArguments(name string) string {
	var out strings.Builder
	depth := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case depth == 0 && isOperatorAt(name, i):
			n := operatorLength(name[i:])
			out.WriteString(name[i : i+n])
			i += n - 1
		case depth == 0 && strings.HasPrefix(name[i:], anonymous):
			out.WriteString(anonymous)
			i += len(anonymous) - 1
		case c == '<' || c == '(':
			depth++
		case c == '>' && i > 0 && name[i-1] == '-': // of an arrow
		case c == '>' || c == ')':
			depth = max(depth-1, 0)
		case depth == 0:
			out.WriteByte(c)
		}
	}
	return out.String()
}

const anonymous = "(anonymous namespace)"

// isOperatorAt reports whether the word operator stands at i, as a word.
func isOperatorAt(name string, i int) bool {
	return strings.HasPrefix(name[i:], "operator") && (i == 0 || !isWordByte(name[i-1])) &&
		(len(name) == i+len("operator") || !isWordByte(name[i+len("operator")]))
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// operatorLength is how much of s, which begins with the word operator, is the
// operator's name: its signs are no brackets.
func operatorLength(s string) int {
	const word = len("operator")
	rest := s[word:]
	for _, sign := range []string{"()", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"} {
		if strings.HasPrefix(rest, sign) {
			return word + len(sign)
		}
	}
	return word
}

// withoutReturn leaves out what stands before the last space: a return type. The
// space in "operator new", or before a type that is converted to, is none of those.
func withoutReturn(name string) string {
	name = strings.TrimSuffix(strings.TrimSpace(name), " const")
	if i := strings.Index(name, " [clone "); i >= 0 {
		name = name[:i]
	}
	if i := strings.Index(name, "[abi:"); i >= 0 {
		if end := strings.IndexByte(name[i:], ']'); end >= 0 {
			name = name[:i] + name[i+end+1:]
		}
	}
	head := name
	if i := strings.Index(name, "operator "); i >= 0 && isOperatorAt(name, i) {
		head = name[:i]
	}
	space := strings.LastIndexByte(strings.ReplaceAll(head, anonymous, strings.Repeat("_", len(anonymous))), ' ')
	return strings.TrimLeft(name[space+1:], "*&")
}

// trimClone leaves out what GCC and LLVM add to names of parts and copies of functions.
func trimClone(name string) string {
	for _, mark := range []string{".part.", ".constprop.", ".isra.", ".lto_priv.", ".llvm.", ".cold"} {
		if i := strings.Index(name, mark); i > 0 {
			name = name[:i]
		}
	}
	return name
}
