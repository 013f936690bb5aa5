package suppress

import "github.com/memtrace/memtrace/analyzer/demangle"

// maxShort bounds the names that are remembered, each of some kilobytes at most.
const maxShort = 1 << 12

// names writes mangled names as they are without parameters. They come from programs, also where a file of
// suppressions has them, so that one may cost more than it is worth: it stays as it is.
type names struct {
	budget demangle.Budget
	shorts map[string]string
}

func (n *names) short(mangled string) string {
	if text, ok := n.shorts[mangled]; ok {
		return text
	}
	text, _ := n.budget.Demangle(mangled, demangle.Short)
	if n.shorts == nil || len(n.shorts) >= maxShort {
		n.shorts = make(map[string]string)
	}
	n.shorts[mangled] = text
	return text
}
