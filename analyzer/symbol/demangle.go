package symbol

import (
	"errors"
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer/demangle"
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

const (
	// maxSteps is what a name of D or Swift may take, in the steps of its demangler, of some 50 ns.
	maxSteps = 1 << 16
	// fewSteps are for the names of whom has no more time left.
	fewSteps = 1 << 9
)

// demangled returns the readable form of a name, or the name itself. The error says that memtrace can't afford it.
func (n Names) demangled(name string, b *demangle.Budget) (text string, err error) {
	if !mayBeMangled(name) {
		return name, nil
	}
	// A name is input like any other; the parsers of names have had their bugs.
	defer func() {
		if recover() != nil {
			text = name
		}
	}()
	switch {
	case swift.Mangled(name):
		return counted(name, n == ShortNames, b, swift.Demangle)
	case strings.HasPrefix(name, "_D"):
		return counted(name, n == ShortNames, b, demangleD)
	case n == ShortNames:
		return b.Demangle(name, demangle.Short)
	}
	return b.Demangle(name, demangle.Full)
}

// counted demangles a name by a demangler that counts its steps.
func counted(name string, short bool, b *demangle.Budget,
	by func(name string, short bool, most int) (text string, took int, ok bool)) (string, error) {
	most, tooMuch := maxSteps, demangle.ErrCost
	if b.Spent() {
		most, tooMuch = fewSteps, demangle.ErrSpent
	}
	text, took, ok := "", 0, false
	b.Time(func() { text, took, ok = by(name, short, most) })
	switch {
	case ok:
		return text, nil
	case took >= most:
		return name, tooMuch
	}
	return name, nil
}

// demangled is the readable form of a name of a file, or the name itself, and remembers it: the same few functions are
// inlined everywhere, and demangling is what costs most in C++.
func (r *Resolver) demangled(f *mappedFile, name string) string {
	if !mayBeMangled(name) {
		return name
	}
	r.mu.Lock()
	text, ok := r.texts.get(name)
	r.mu.Unlock()
	if ok {
		return text
	}
	text, err := r.options.Names.demangled(name, r.demangling(f))
	if err != nil {
		r.warnMangled(f, err)
		if !errors.Is(err, demangle.ErrCost) {
			f.mangled.Store(true)
			return name
		}
	}
	r.mu.Lock()
	r.texts.put(name, text)
	r.mu.Unlock()
	return text
}

// demangling is what the names of a file may take: those of a user's files together, those of each of root's.
func (r *Resolver) demangling(f *mappedFile) *demangle.Budget {
	if f.owner == 0 {
		return &f.demangling
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ownersNames[f.owner] == nil {
		r.ownersNames[f.owner] = &demangle.Budget{}
	}
	return r.ownersNames[f.owner]
}

// warnMangled says why names stay mangled.
func (r *Resolver) warnMangled(f *mappedFile, err error) {
	switch {
	case errors.Is(err, demangle.ErrCost):
		r.warnings.add("costly names of "+f.path,
			f.path+": there are names in it that take more to demangle than any of a compiler: they stay mangled")
	case !errors.Is(err, demangle.ErrSpent):
		r.warnings.add("demangling", fmt.Sprintf("%v; long names stay mangled", err))
	case f.owner == 0:
		r.warnings.add("names of "+f.path,
			f.path+": its names take more time to demangle than those of any honest file: the longer ones of the rest stay mangled")
	default:
		r.warnings.add(fmt.Sprintf("names of user %d", f.owner), fmt.Sprintf("the names in the files of user %d, %s among them, "+
			"take more time to demangle than those of any honest program: the longer ones of the rest stay mangled", f.owner, f.path))
	}
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
