package analyzer

import (
	"path"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/wrapper"
)

// docs/allocators.md says in words which functions count as wrappers.

const (
	// wrapperSites is how many sites, in the order of their first block, are looked at
	// for wrappers that no list has. A bound: each has to be named.
	wrapperSites = 512

	// namesAhead is how many stacks a Report that is not the last one asks names of, at least, where so
	// many are to be looked at: one that shows more new ones asks for none beside them.
	namesAhead = 16

	thinCallers = 8 // different functions that call a wrapper, at least
	thinSizes   = 4 // different buckets of sizes among the first blocks of its sites, at least
	thinPlaces  = 3 // places from which it calls an allocator, at most

	examinedFrames = 128     // of a stack
	keptAnswers    = 1 << 16 // names whose answer is kept
)

// wrappers tells the functions that hand out memory on behalf of their caller: those
// that are listed, those that the user names, and those that the stacks show.
type wrappers struct {
	named    *wrapper.Patterns // by the user; nil: none
	answers  map[string]bool   // of the list and the user's patterns, by Frame.Function
	examined siteID            // sites before it were looked at
	thin     map[codeID]*thinEvidence
}

// A codeID names a function of a file; one without a name by the place of a call in it.
type codeID struct {
	module, function string
	offset           uint64
}

// thinEvidence is what the stacks show of a function.
type thinEvidence struct {
	callers map[codeID]bool
	sizes   map[uint8]bool
	places  map[codePlace]bool
	busy    bool // it does other things than to call the allocator
	taken   bool // it counts as a wrapper, from now on
}

// A codePlace is where a function calls another: its line where it is inlined, as there is
// a copy of it in each caller.
type codePlace struct {
	file   string
	line   int
	offset uint64
}

// functionOf returns what a site with this stack, which is not empty, is called by, and
// which frame that is: the first that is neither a wrapper nor the language's library, or the first of Python.
func (a *Analyzer) functionOf(stack []*report.Frame) (string, int) {
	if f, i := report.Interpreted(stack); f != nil {
		return f.Function, i
	}
	if i := named(stack, a.wrappers.outside(stack)); i < len(stack) {
		return stack[i].Function, i
	}
	for i, f := range stack {
		if !report.IsAllocator(f.Function) {
			return f.Function, i
		}
	}
	return stack[0].Function, 0
}

// named is the index of the frame that a site is called by, i being that outside of its wrappers. Where this is a runtime's code that says nothing, as
// that which a JIT compiler made and that has no name, it is that of the wrapper that it called.
func named(stack []*report.Frame, i int) int {
	if i == len(stack) || !isRuntimeCode(stack[i]) {
		return i
	}
	for j := i - 1; j >= 0; j-- {
		if !isRuntimeCode(stack[j]) {
			return j
		}
	}
	return i
}

// isRuntimeCode reports whether a function's name says only that a runtime executes a program.
func isRuntimeCode(f *report.Frame) bool {
	if f.Function == "[anon]" || strings.HasPrefix(f.Function, "Builtins_") { // V8's
		return true
	}
	return f.Module == "[anon]" && (f.Function == "Interpreter" || strings.HasPrefix(f.Function, "StubRoutines")) // HotSpot's
}

// outside is the index of the first frame outside of allocators and wrappers; the
// number of frames where there is none.
func (w *wrappers) outside(stack []*report.Frame) int {
	for i := 0; i < len(stack); i++ {
		f := stack[i]
		if f.InLibc() || inCppLibrary(f.Module) || w.isWrapper(f) {
			continue
		}
		n := w.insides(stack[i:])
		if n == 0 {
			return i
		}
		i += n
	}
	return len(stack)
}

// maxInsides is how many functions of a wrapper's own may lie inside of it.
const maxInsides = 4

// insides is how many functions without a name a stack begins with that are a listed wrapper's
// own, as it follows in the same file: palloc calls a function of PostgreSQL's that a stripped file has no name of.
func (w *wrappers) insides(stack []*report.Frame) int {
	for i, f := range stack[:min(len(stack), maxInsides+1)] {
		switch {
		case f.Module == "" || f.Module != stack[0].Module:
			return 0
		case !f.Nameless() && w.isWrapper(f):
			return i
		case !f.Nameless():
			return 0
		}
	}
	return 0
}

// inCppLibrary tells the file of a C++ standard library: what a program has of one in
// its own file goes by its name.
func inCppLibrary(module string) bool {
	base := path.Base(module)
	return strings.HasPrefix(base, "libstdc++.so") || strings.HasPrefix(base, "libc++.so") || strings.HasPrefix(base, "libc++abi.so")
}

func (w *wrappers) isWrapper(f *report.Frame) bool {
	if e := w.thin[idOf(f)]; e != nil && e.taken {
		return true
	}
	known, ok := w.answers[f.Function]
	if !ok {
		known = report.IsAllocator(f.Function) || wrapper.Known(f.Function) || w.named.Match(f.Function) || f.Mangled != "" && w.named.Match(f.Mangled)
		if w.answers == nil || len(w.answers) >= keptAnswers {
			w.answers = make(map[string]bool)
		}
		w.answers[f.Function] = known
	}
	return known
}

func idOf(f *report.Frame) codeID {
	if f.Nameless() {
		return codeID{module: f.Module, offset: f.Offset}
	}
	return codeID{module: f.Module, function: f.Function}
}

// findWrappers looks for wrappers among the sites that were not looked at yet, as far as they
// have names. What it finds depends on the sites and their order alone, not on when they are
// named, and is never taken back: else a site's name would change to and fro. In the end those
// that never got names are passed over.
func (a *Analyzer) findWrappers(end bool) {
	w := &a.wrappers
	for ; w.examined < siteID(min(a.sites.used, wrapperSites)); w.examined++ {
		s := a.sites.at(w.examined)
		ref, ok := s.wrapperStack()
		if !ok {
			continue
		}
		frames, named := a.knownNames(ref)
		if named {
			w.examine(frames, s.sizes.Began())
		} else if !end {
			return
		}
	}
}

// wrapperStack returns the stack of a site that may show wrappers.
func (s *site) wrapperStack() (stackRef, bool) {
	if s.other || s.stack == 0 || s.sizes.Total() == 0 {
		return stackRef{}, false
	}
	ref, ok := s.image.stack(s.stack)
	return ref, ok && ref.frames != 0
}

// askForWrappers asks for the names by which wrappers are found. To name a stack can take long in a program
// with much debug information, so that the last Report alone asks for all: others ask
// for so many that they name no more than a Report of one page.
func (a *Analyzer) askForWrappers(q *stackQuestions, final bool) {
	for id := a.wrappers.examined; id < siteID(min(a.sites.used, wrapperSites)); id++ {
		if !final && len(q.out) >= namesAhead {
			return
		}
		s := a.sites.at(id)
		if _, ok := s.wrapperStack(); ok {
			q.ask(int(s.proc.info.PID), s.image, s.stack)
		}
	}
}

// examine notes what a stack shows of its functions; size is the bucket of the site's first block.
func (w *wrappers) examine(stack []*report.Frame, size uint8) {
	stack = stack[:min(len(stack), examinedFrames)]
	leaf := w.outside(stack)
	for _, f := range stack[min(leaf+1, len(stack)):] {
		if seemsWrapper(f) {
			w.evidence(idOf(f)).busy = true
		}
	}
	if leaf+1 >= len(stack) || !seemsWrapper(stack[leaf]) {
		return
	}
	w.evidence(idOf(stack[leaf])).add(stack[leaf], stack[leaf+1], size)
}

// seemsWrapper reports whether a function may be a wrapper by its name: one that says
// that it allocates, or none. Whatever else a program calls a function, it is to be seen.
func seemsWrapper(f *report.Frame) bool {
	if f.Nameless() {
		return f.Module != ""
	}
	name := strings.ToLower(wrapper.Bare(f.Function))
	name = name[strings.LastIndexByte(name, ':')+1:]
	for _, part := range []string{"alloc", "strdup", "strndup", "memdup"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func (w *wrappers) evidence(id codeID) *thinEvidence {
	e := w.thin[id]
	if e == nil {
		if w.thin == nil {
			w.thin = make(map[codeID]*thinEvidence)
		}
		e = &thinEvidence{}
		w.thin[id] = e
	}
	return e
}

// add notes a stack in which a function calls the allocator for a caller.
func (e *thinEvidence) add(f, caller *report.Frame, size uint8) {
	if e.busy || e.taken {
		return
	}
	if e.callers == nil {
		e.callers, e.sizes, e.places = make(map[codeID]bool), make(map[uint8]bool), make(map[codePlace]bool)
	}
	place := codePlace{offset: f.Offset}
	if f.Inlined {
		place = codePlace{file: f.File, line: f.Line}
	}
	e.callers[idOf(caller)], e.sizes[size], e.places[place] = true, true, true
	e.busy = len(e.places) > thinPlaces
	e.taken = !e.busy && len(e.callers) >= thinCallers && len(e.sizes) >= thinSizes
}
