package suppress

import (
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

const suppressionFile = `
# known leaks
leak:^known_leak$
leak:libold.so
leak:never*here

{
   a widget
   Memcheck:Leak
   match-leak-kinds: definite,indirect
   fun:_Znwm
   fun:_ZN6Widget4makeEi
   ...
   fun:main
}
{
   of another kind
   Memcheck:Cond
   fun:main
}
{
   an object file
   Memcheck:Leak
   fun:malloc
   obj:*/libfoo.so*
}
`

func TestSuppressions(t *testing.T) {
	s, err := Parse(strings.NewReader(suppressionFile))
	if err != nil {
		t.Fatal(err)
	}
	stack := func(names ...string) (out []*report.Frame) {
		for _, n := range names {
			out = append(out, &report.Frame{Function: n, Module: "/usr/bin/program"})
		}
		return out
	}
	foo := []*report.Frame{{Function: "f", Module: "/usr/lib/libfoo.so.3"}}
	old := []*report.Frame{{Function: "g"}, {Function: "h", Module: "/opt/libold.so"}}
	for i, c := range []struct {
		kind  string
		stack []*report.Frame
		want  bool
	}{
		{"definite", stack("known_leak", "main"), true},
		{"definite", stack("main", "known_leak"), true},
		{"definite", stack("unknown_leak", "main"), false},
		{"growing", old, true},
		{"definite", stack("Widget::make", "x", "y", "main", "_start"), true},
		{"possible", stack("Widget::make", "x", "y", "main", "_start"), false},
		{"definite", stack("Widget::make", "x", "y"), false},
		{"definite", stack("x", "Widget::make", "main"), false},
		{"definite", foo, true},
		{"definite", slices.Concat(stack("main"), foo), false},
	} {
		if got := s.matches(&report.Leak{Kind: c.kind}, "", c.stack); got != c.want {
			t.Errorf("case %d, %v: %v", i, c.stack, got)
		}
	}
	if got := s.Unused(); !slices.Equal(got, []string{"leak:never*here"}) {
		t.Errorf("unused: %q", got)
	}
	r := &report.Report{Sites: []report.Site{{ID: 7, Stack: foo}, {ID: 8, Stack: stack("main")}},
		Leaks: []report.Leak{{Site: 7, Kind: "definite", Bytes: 2048, Count: 3}, {Site: 8, Kind: "definite"}}}
	s.Apply(r)
	if len(r.Leaks) != 1 || r.Leaks[0].Site != 8 || !slices.Equal(r.Warnings, []string{"3 leaked blocks of 2.00 KiB are suppressed"}) {
		t.Errorf("%+v, %q", r.Leaks, r.Warnings)
	}
}

func TestSuppressionsMatchBothNames(t *testing.T) {
	stack := []*report.Frame{
		{Function: "operator new(unsigned long)", Mangled: "_Znwm", Module: "/usr/lib/libstdc++.so.6"},
		{Function: "Widget::make(int)", Mangled: "_ZN6Widget4makeEi", File: "/src/widget.cc", Module: "/usr/bin/program"},
		{Function: "inline_me", Inlined: true, Module: "/usr/bin/program"},
		{Function: "main", Module: "/usr/bin/program"},
	}
	direct := []*report.Frame{{Function: "f(char*)", Mangled: "_Z1fPc"}, {Function: "0x1234", Module: "/opt/x.so"}, {Function: "main"}}
	block := func(lines ...string) string { return "{\nx\nMemcheck:Leak\n" + strings.Join(lines, "\n") + "\n}\n" }
	for _, c := range []struct {
		text  string
		stack []*report.Frame
		want  bool
	}{
		{"leak:Widget::make", stack, true}, {"leak:_ZN6Widget4makeEi", stack, true}, {"leak:^Widget::make(int)$", stack, true},
		{"leak:widget.cc", stack, true}, {"leak:^make", stack, false}, {"leak:Widget::mak?", stack, false}, {"leak:W*make*$", stack, true},
		{"leak:make$", stack, false}, {"leak:*", stack, true}, {"leak:^*(int)$", stack, true},
		{block("fun:_Znwm", "fun:_ZN6Widget4makeEi"), stack, true}, {block("fun:_Znw?", "fun:*make*"), stack, true},
		{block("fun:malloc", "fun:_ZN6Widget4makeEi"), stack, false}, {block("fun:_Znwm", "fun:Widget::make"), stack, true},
		{block("fun:_Znwm", "fun:Widget::make(int)", "...", "fun:main"), stack, true}, {block("...", "obj:/usr/bin/prog*"), stack, true},
		{block("fun:_Znwm", "src:widget.cc"), stack, true}, {block("obj:*libstdc++*", "fun:main"), stack, false},
		{block("fun:malloc", "fun:_Z1fPc"), direct, true}, {block("fun:*alloc", "fun:f"), direct, true}, {block("fun:*", "fun:_Z1fPc", "obj:/opt/*", "fun:main"), direct, true},
		{block("obj:*vgpreload_memcheck*", "fun:f"), direct, true}, {block("fun:malloc", "fun:f", "fun:0x1234"), direct, false},
		{block("fun:malloc", "fun:f", "fun:*"), direct, true}, {block("match-leak-kinds:none", "fun:*"), direct, false},
		{block("match-leak-kinds: reachable,definite", "fun:malloc", "fun:f"), direct, true}, {block("fun:f"), direct, false},
		{block("fun:memalign", "fun:posix_memalign", "fun:f"), direct, true}, {block("fun:_Znam", "fun:*make*"), stack, true},
		{"{\nx\nAddrcheck,Memcheck:Leak\nfun:malloc\nfun:f\n}", direct, true},
	} {
		s, err := Parse(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if got := s.matches(&report.Leak{Kind: "definite"}, "", c.stack); got != c.want {
			t.Errorf("%q: %v", c.text, got)
		}
	}
}

// TestMatchTemplate: what LeakSanitizer's own function says of these.
func TestMatchTemplate(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"foo", "xfoox", true}, {"foo$", "foofoo", false}, {"*foo$", "foofoo", false}, {"foo*$", "foox", true}, {"^foo", "xfoo", false},
		{"^foo$", "foo", true}, {"^", "x", true}, {"$", "x", false}, {"a*b*c", "xaybzc", true}, {"a*c", "acb", true}, {"a?c", "abc", false}, {"x", "", false},
	} {
		if got := matchTemplate(c.pattern, c.name); got != c.want {
			t.Errorf("%q in %q: %v", c.pattern, c.name, got)
		}
	}
}

// TestWrittenSuppressionsSuppressTheirLeak, and no other, in both formats.
func TestWrittenSuppressionsSuppressTheirLeak(t *testing.T) {
	frame := func(function, mangled string) *report.Frame {
		return &report.Frame{Function: function, Mangled: mangled, Module: "/usr/bin/p"}
	}
	start := &report.Frame{Function: "__libc_start_main", Module: "/lib/libc.so.6"}
	inlined := frame("helper", "")
	inlined.Inlined = true
	sites := []report.Site{
		{ID: 0, Function: "f(int)", Stack: []*report.Frame{frame("f(int)", "_Z1fi"), inlined, frame("main", ""), start}},
		{ID: 1, Function: "g()", Stack: []*report.Frame{frame("operator new(unsigned long)", "_Znwm"), frame("g()", "_Z1gv"), frame("main", ""), start}},
		{ID: 2, Function: "0x12", Stack: []*report.Frame{{Function: "0x12", Module: "/opt/x.so"}, frame("main", ""), start}},
		{ID: 3, Function: "f(int)", Stack: []*report.Frame{frame("f(int)", "_Z1fi"), frame("other", ""), frame("main", "")}},
		{ID: 4, Function: "evil\n}\n{", Stack: []*report.Frame{frame("evil\n}\n{", "")}},
	}
	for style, exact := range map[Style]map[int][]int{
		Valgrind: {0: {0}, 1: {1}, 2: {2}, 3: {3}},
		LSan:     {0: {0, 3}, 1: {1}, 2: {2}},
	} {
		for which, want := range exact {
			r := &report.Report{Sites: slices.Clone(sites)}
			for i := range sites {
				r.Leaks = append(r.Leaks, report.Leak{Site: i, Kind: "definite", Bytes: 1, Count: 1})
			}
			var text strings.Builder
			if _, err := Write(&text, r, []int{which, which}, style); err != nil {
				t.Fatal(err)
			}
			s, err := Parse(strings.NewReader(text.String()))
			if err != nil {
				t.Fatalf("%s\n%v", text.String(), err)
			}
			var got []int
			for _, l := range s.Apply(r) {
				got = append(got, l.Site)
			}
			if !slices.Equal(got, want) || len(s.all) != 1 {
				t.Errorf("%s %d suppresses %v, want %v:\n%s", style, which, got, want, text.String())
			}
		}
		var text strings.Builder
		if _, err := Write(&text, &report.Report{Sites: sites, Leaks: []report.Leak{{Site: 4, Kind: "definite"}, {Site: 9, Kind: "old"}}}, []int{0, 1}, style); err != nil {
			t.Fatal(err)
		}
		if s, err := Parse(strings.NewReader(text.String())); err != nil || len(s.all) != 0 {
			t.Errorf("%v:\n%s", err, text.String())
		}
	}
}

// TestHostileNamesSuppressNothingElse: whatever a function is called, what is
// written for its leak matches no leak of another function, or is not written,
// which is then said.
func TestHostileNamesSuppressNothingElse(t *testing.T) {
	libc := &report.Frame{Function: "__libc_start_main", Module: "/usr/lib/libc.so.6"}
	victims := []report.Site{
		{ID: 1, Stack: []*report.Frame{{Function: "leak", Module: "/bin/b", File: "/src/leak.c"}, {Function: "main", Module: "/bin/b", File: "list.c"}, libc}},
		{ID: 2, Stack: []*report.Frame{{Function: "operator new(unsigned long)", Mangled: "_Znwm", Module: "/usr/lib/libstdc++.so.6"},
			{Function: "ns::g(char*, int)", Mangled: "_ZN2ns1gEPci", Module: "/bin/b"}, {Function: "main", Module: "/bin/b"}, libc}},
		{ID: 3, Stack: []*report.Frame{{Function: "x", Module: "/bin/b"}, {Function: "start_thread", Module: "/usr/lib/libc.so.6"}}},
		{ID: 4, Stack: []*report.Frame{{Function: "ab", Module: "/bin/b"}, {Function: "y"}, {Function: "main"}}},
		{ID: 5, Stack: []*report.Frame{{Function: "operatorX", Module: "/bin/b"}}},
	}
	for _, f := range []report.Frame{
		{Function: "*"}, {Function: "?*"}, {Function: "?"}, {Function: "**"}, {Function: "l*k"}, {Function: "$"}, {Function: "a$b"}, {Function: "l$"},
		{Function: "..."}, {Function: "}"}, {Function: "{"}, {Function: "#"}, {Function: "# x"}, {Function: "leak:*"}, {Function: "leak:leak"}, {Function: "fun:*"},
		{Function: "x\n}\n{\nx\nMemcheck:Leak\nfun:*\nfun:leak"}, {Function: "x\nleak:*"}, {Function: "x\rleak:l"}, {Function: "\n"}, {Function: " "}, {Function: " leak"}, {Function: "leak "},
		{Function: "\ufffd"}, {Function: "\u200b"}, {Function: "\xff"}, {Function: "a\x00b"}, {Function: "[x]"}, {Function: "^"}, {Function: "^leak"},
		{Function: "/usr/lib/libc.so.6"}, {Function: "list.c"}, {Function: "/src/leak.c"}, {Function: "start_thread"}, {Function: "__libc_start_main"},
		{Function: "ns::f(char*)", Mangled: "_ZN2ns1fEPc"}, {Function: "*()", Mangled: "_Z1*v"}, {Function: "char* ns::f(char*)", Mangled: "_ZN2ns1fEPc"}, {Function: "operator*", Mangled: "_Zml"}, {Function: "operator*"}, {Function: "f", Mangled: "*"},
		{Function: "0x12"}, {Function: "0x12", Module: "*"}, {Function: "0x12", Module: "/opt/?*"}, {Function: "0x12", Module: "/usr/lib/libc.so.6"}, {Function: "0x12", Module: "/bin/b"},
		{Function: "", Module: "[heap]"}, {Function: strings.Repeat("l", 1<<16)}, {Function: "a", Inlined: true}, {Function: "<", Inlined: true}, {Function: "malloc"}, {Function: "operator new(*"},
	} {
		for _, outer := range [][]*report.Frame{nil, {{Function: "main"}, libc}, {{Function: "0x9"}, {Function: "main"}, libc}, {{Function: "start_thread", Module: "/usr/lib/libc.so.6"}}} {
			for _, style := range []Style{Valgrind, LSan} {
				if style == Valgrind && f.Module == "/bin/b" {
					continue // where code has no name, Valgrind's lines mean the file
				}
				site := report.Site{ID: 9, Function: f.Function, Stack: append([]*report.Frame{&f}, outer...)}
				r := &report.Report{Processes: []report.Process{{ID: 1, Exe: "/bin/b"}}, Sites: append(slices.Clone(victims), site), Leaks: []report.Leak{{Site: 9, Kind: "definite", Bytes: 40}}}
				var text strings.Builder
				left, err := Write(&text, r, []int{0}, style)
				if err != nil {
					t.Fatal(err)
				}
				s, err := Parse(strings.NewReader(text.String()))
				if err != nil {
					t.Errorf("%.60q, %s: %v\n%.300q", f.Function, style, err, text.String())
					continue
				}
				for _, v := range victims {
					if s.matches(&report.Leak{Kind: "definite"}, "/bin/b", v.Stack) {
						t.Errorf("%.60q of %q under %d frames: leak %d is suppressed by\n%.300s", f.Function, f.Module, len(outer), v.ID, text.String())
					}
				}
				if own := s.matches(&report.Leak{Kind: "definite"}, "/bin/b", site.Stack); own != (len(left) == 0) || len(s.all) != 1-len(left) {
					t.Errorf("%.60q of %q, %s: its own leak is suppressed: %v, left out: %q, written\n%.300s", f.Function, f.Module, style, own, left, text.String())
				}
			}
		}
	}
}

func TestBareName(t *testing.T) {
	for name, want := range map[string]string{"f": "f", "ns::W::make(int)": "make", "operator new(unsigned long)": "", "W<int>::make()": "", "a*b": "", "": ""} {
		if got := bareName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestSuppressionsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"leak:":                              "line 1 ",
		"{\n x\n Memcheck:Leak\n fun:f\n":    "no closing brace",
		"{\n x\n Memcheck:Leak\n}\n":         "names no function",
		"{\n x\n Memcheck:Leak\n fnu:f\n}\n": "line 4: ",
		"leak:a\n\nrace:b\n":                 "line 3 ",
		"{":                                  "no closing brace",
		"{\n x\n Memcheck:Leak\n match-leak-kinds: lost\n fun:f\n}\n": "unknown kind",
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestEmbeddedSuppressionsAreForTheirProgram: what one program has built in says
// nothing of another's leaks, also where the other's path reads the same, and is
// no mistake where nothing matches it.
func TestEmbeddedSuppressionsAreForTheirProgram(t *testing.T) {
	built, err := Parse(strings.NewReader("leak:known\nleak:never\n"))
	if err != nil {
		t.Fatal(err)
	}
	var s List
	scope, left := s.Embed("/bin/one", built)
	scope.Add(11)
	scope.Add(12)
	stack := []*report.Frame{{Function: "known", Module: "/lib/shared.so"}}
	r := &report.Report{Processes: []report.Process{{ID: 1, PID: 11, Exe: "/bin/one"}, {ID: 2, PID: 12, Exe: "/bin/two"}, {ID: 3, PID: 13, Exe: "/bin/one"}},
		Sites: []report.Site{{ID: 7, Stack: stack}, {ID: 8, Stack: append(stack, &report.Frame{Function: "main", Module: "/bin/one"})}},
		Leaks: []report.Leak{{Site: 7, Process: 1, PID: 11, Kind: "definite"}, {Site: 7, Process: 2, PID: 12, Kind: "definite"}, {Site: 8, Process: 2, PID: 12, Kind: "definite"},
			{Site: 7, Process: 3, PID: 13, Kind: "definite"}, {Site: 8, Process: 3, PID: 13, Kind: "definite"}}}
	if out := s.Apply(r); len(out) != 2 || len(r.Leaks) != 3 || r.Leaks[0].Process != 2 || r.Leaks[1].Process != 3 || len(s.Unused()) != 0 || left != 0 {
		t.Errorf("suppressed %+v, left %+v, unused %q", out, r.Leaks, s.Unused())
	}
}

// TestOneProgramLeavesRoomForOthers: whatever one program has built in, the next
// one's suppressions count, and what is left out is counted.
func TestOneProgramLeavesRoomForOthers(t *testing.T) {
	many, err := Parse(strings.NewReader(strings.Repeat("leak:x\n", 1<<16)))
	if err != nil {
		t.Fatal(err)
	}
	own, err := Parse(strings.NewReader("leak:known\n"))
	if err != nil {
		t.Fatal(err)
	}
	var s List
	if _, left := s.Embed("/tmp/hostile", many); left != 1<<16-maxEmbedded {
		t.Errorf("%d are left out", left)
	}
	scope, left := s.Embed("/bin/one", own)
	scope.Add(1)
	if left != 0 || !s.matches(&report.Leak{Kind: "definite", PID: 1}, "/bin/one", []*report.Frame{{Function: "known"}}) {
		t.Errorf("%d are left out of those of the other program", left)
	}
}
