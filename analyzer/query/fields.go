package query

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer"
)

// unit is what a number counts.
type unit uint8

const (
	plain unit = iota
	bytes
	nanoseconds
)

var unitNames = [...]string{"a plain number", "a size in bytes", "a time"}

// valueKind is what an expression gives.
type valueKind uint8

const (
	isBool valueKind = iota
	isNumber
	isText
	isTexts // several: a comparison holds if it does for one
)

var kindNames = [...]string{"true or false", "a number", "a text", "texts"}

// needs are what must be known to judge.
type needs uint8

const (
	needsNames needs = 1 << iota // of the site
	needsBlock                   // anything of the block itself
	needsBirth                   // the thread, the cause, and the reallocs before
	needsCheck                   // what a leak check has found
)

// A Field is something that is known of a block.
type Field struct {
	Name string
	Text string // what it is, in a few words

	kind   valueKind
	unit   unit
	needs  needs
	bool   func(*subject) bool
	number func(*subject) float64
	text   func(*subject) string
	texts  func(*subject) []string
}

// fields are all there are, in the order in which help lists them.
var fields = []Field{
	numberField("size", "bytes, as asked for", bytes, needsBlock, func(s *subject) float64 { return float64(s.life.Size) }),
	numberField("lifetime", "from its allocation to its end; of one that lives, so far", nanoseconds, needsBlock,
		func(s *subject) float64 { return float64(s.lifetime()) }),
	numberField("born", "when it was allocated, since the trace began", nanoseconds, needsBlock, func(s *subject) float64 { return float64(s.life.Born) }),
	numberField("freed", "when it ended; no comparison holds for one that lives", nanoseconds, needsBlock, func(s *subject) float64 {
		if s.live {
			return missing
		}
		return float64(s.life.Ended)
	}),
	{Name: "live", Text: "it lives at the end of the span", kind: isBool, needs: needsBlock, bool: func(s *subject) bool { return s.live }},
	{Name: "leaked", Text: "the last leak check found it leaked", kind: isBool, needs: needsBlock | needsCheck, bool: func(s *subject) bool { return s.life.Leaked != "" }},
	textField("leak", "what kind of leak: definite, indirect, possible; else empty", needsBlock|needsCheck, func(s *subject) string { return s.life.Leaked }),
	{Name: "temporary", Text: "its thread allocated nothing before it freed it", kind: isBool, needs: needsBlock, bool: func(s *subject) bool { return s.life.Temporary }},
	numberField("thread", "ID of the thread that allocated it", plain, needsBlock|needsBirth, func(s *subject) float64 { return known(s.birth.thread) }),
	numberField("free_thread", "ID of the thread that freed it", plain, needsBlock, func(s *subject) float64 { return known(s.freeThread()) }),
	numberField("pid", "ID of its process", plain, needsBlock, func(s *subject) float64 { return float64(s.life.PID) }),
	numberField("addr", "its address", plain, needsBlock, func(s *subject) float64 { return float64(s.life.Addr) }),
	numberField("realloc_chain", "reallocs that it went through before", plain, needsBlock|needsBirth, func(s *subject) float64 { return float64(s.birth.chain) }),
	textField("kind", "how it came to be: alloc, realloc, or fork (a child's copy)", needsBlock|needsBirth, func(s *subject) string { return s.birth.cause.String() }),
	textField("ended_by", "such as free, realloc, pool, exec, exit; empty while it lives", needsBlock, func(s *subject) string {
		if s.live {
			return ""
		}
		return s.life.Cause.String()
	}),
	textField("comm", "name of its process", needsNames, func(s *subject) string { return s.site.comm }),
	textField("function", "that allocated it, wrappers of the allocator aside", needsNames, func(s *subject) string { return s.site.function }),
	textField("file", "source file of that function", needsNames, func(s *subject) string { return s.site.file }),
	numberField("line", "in that file", plain, needsNames, func(s *subject) float64 { return known(uint32(s.site.line)) }),
	textField("module", "program or library that the function is in", needsNames, func(s *subject) string { return s.site.module }),
	textsField("stack", "functions of its call stack: holds if it does for one", needsNames, func(s *subject) []string { return s.site.stack() }),
	textsField("modules", "programs and libraries of its call stack", needsNames, func(s *subject) []string { return s.site.modules() }),
	numberField("depth", "number of frames of its call stack", plain, needsNames, func(s *subject) float64 { return float64(len(s.site.name.Frames)) }),
	textsField("allocator", "those of its process, such as glibc", needsNames, func(s *subject) []string { return s.site.allocators }),
	numberField("end", "end of the span that is looked at", nanoseconds, needsBlock, func(s *subject) float64 { return float64(s.end) }),
}

func numberField(name, text string, u unit, n needs, get func(*subject) float64) Field {
	return Field{Name: name, Text: text, kind: isNumber, unit: u, needs: n, number: get}
}

func textField(name, text string, n needs, get func(*subject) string) Field {
	return Field{Name: name, Text: text, kind: isText, needs: n, text: get}
}

func textsField(name, text string, n needs, get func(*subject) []string) Field {
	return Field{Name: name, Text: text, kind: isTexts, needs: n, texts: get}
}

// known is a number of which 0 means that it isn't.
func known(n uint32) float64 {
	if n == 0 {
		return missing
	}
	return float64(n)
}

func (s *subject) freeThread() uint32 {
	if s.live || s.life.Cause != analyzer.ByFree && s.life.Cause != analyzer.ByRealloc && s.life.Cause != analyzer.ByPool {
		return 0
	}
	return s.life.TID
}

// Fields lists what an expression may ask of a block, and alive_at(t), which is none.
func Fields() []Field { return fields }

func fieldOf(name string) *Field {
	for i := range fields {
		if fields[i].Name == name {
			return &fields[i]
		}
	}
	return nil
}

// notFields says why there are no such fields.
var notFields = map[string]string{
	"resident": "resident is known of call sites, not of single blocks, as pages are shared: memtrace report FILE --sort resident",
	"swapped":  "swapped is known of call sites, not of single blocks, as pages are shared: memtrace report FILE",
	"faults":   "faults are known of call sites, not of single blocks: memtrace report FILE --sort faults",
	"tid":      "there are two: thread (allocated it) and free_thread (freed it)",
	"age":      "lifetime of a block that lives is its age: live && lifetime > 1s",
	"time":     "there are two: born and freed",
	"alive_at": "alive_at needs a time: alive_at(30s)",
}

// unknownField names the fields there are.
func unknownField(name string) string {
	if why, ok := notFields[name]; ok {
		return why
	}
	best, least := "", 3
	names := make([]string, 0, len(fields)+1)
	for _, f := range fields {
		names = append(names, f.Name)
		if d := distance(name, f.Name); d < least {
			best, least = f.Name, d
		}
	}
	hint := ""
	if best != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", best)
	}
	return fmt.Sprintf("there is no field %.40q%s; texts stand in quotes, and the fields are %s, alive_at(t)", name, hint, strings.Join(names, ", "))
}

// distance is the number of letters to change, add or leave out (Levenshtein, 1965); 9 where a word is too long.
func distance(a, b string) int {
	if len(a) > 20 {
		return 9
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
