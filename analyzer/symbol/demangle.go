package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/memtrace/memtrace/analyzer/symbol/swift"
)

const (
	// maxMangled is the longest name that is demangled at all, maxDemangled
	// (a power of two) the longest result: nested templates grow without bound.
	maxMangled      = 1 << 14
	maxDemangledPow = 14
)

// Names says how C++, Rust, D and Swift names are written.
type Names int

const (
	// FullNames have parameters and template arguments, as c++filt.
	FullNames Names = iota
	// ShortNames leave both out.
	ShortNames
)

// demangled returns the readable form of name, or name itself.
func (n Names) demangled(name string) (text string) {
	if !mayBeMangled(name) {
		return name
	}
	// A name is input like any other; the parser of names has had its bugs.
	defer func() {
		if recover() != nil {
			text = name
		}
	}()
	if swift.Mangled(name) {
		if text, ok := swift.Demangle(name, n == ShortNames); ok {
			return text
		}
		return name
	}
	if strings.HasPrefix(name, "_D") {
		if text, ok := demangleD(name, n == ShortNames); ok {
			return text
		}
		return name
	}
	options := []demangle.Option{demangle.MaxLength(maxDemangledPow)}
	if n == ShortNames {
		options = append(options, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams)
	}
	return demangle.Filter(name, options...)
}

// mayBeMangled tells whether name looks like C++'s, Rust's, D's or Swift's and is worth a try.
func mayBeMangled(name string) bool {
	return len(name) <= maxMangled && (swift.Mangled(name) || strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "_D"))
}

// trimVersion cuts the symbol version that .symtab keeps in the name:
// "memcpy@@GLIBC_2.14".
func trimVersion(name string) string {
	if i := strings.IndexByte(name, '@'); i > 0 {
		return name[:i]
	}
	return name
}
