package symbol

import (
	"regexp"
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
	if !affordable(name) {
		return name
	}
	options := []demangle.Option{demangle.MaxLength(maxDemangledPow)}
	if n == ShortNames {
		options = append(options, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams)
	}
	return demangle.Filter(name, options...)
}

// maxExpansion bounds what the expansions of parameter packs in a name may cost: each copies its pattern for each
// argument, and looks through all arguments for that. The name stands for the number of either.
const maxExpansion = 1 << 27

// affordable tells whether the packs of parameters in a C++ name can be written out in a moment. An expansion that
// is all of another's pattern, which no compiler makes, costs as much as all of that once more.
func affordable(name string) bool {
	expansions, cost := 0, len(name)*len(name)
	for _, kind := range []string{"Dp", "sp", "sP"} {
		expansions += strings.Count(name, kind)
	}
	return expansions*cost <= maxExpansion && !nestedPacks.MatchString(name) && !piledUp(name)
}

// piledUp tells long names that are types of types of types, local to functions in functions: each level goes through
// all levels below. Of real names less than a tenth is such letters.
func piledUp(name string) bool {
	levels := 0
	for _, c := range []byte(name) {
		if strings.IndexByte("PROKVZ", c) >= 0 {
			levels++
		}
	}
	return levels > 512 && levels > len(name)/4
}

// nestedPacks matches an expansion that is all of another's pattern, but for pointers, references and qualifiers.
var nestedPacks = regexp.MustCompile(`(Dp|sp)[PROKVrGC]*(Dp|sp)`)

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
