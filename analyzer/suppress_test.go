package analyzer

import (
	"slices"
	"strings"
	"testing"
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
   obj:*/libfoo.so*
}
`

func TestSuppressions(t *testing.T) {
	s, err := ParseSuppressions(strings.NewReader(suppressionFile))
	if err != nil {
		t.Fatal(err)
	}
	stack := func(names ...string) (out []Frame) {
		for _, n := range names {
			out = append(out, Frame{Function: n, Module: "/usr/bin/program"})
		}
		return out
	}
	foo := []Frame{{Function: "f", Module: "/usr/lib/libfoo.so.3"}}
	old := []Frame{{Function: "g"}, {Function: "h", Module: "/opt/libold.so"}}
	for i, c := range []struct {
		kind  string
		stack []Frame
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
		if got := s.matches(c.kind, c.stack); got != c.want {
			t.Errorf("case %d, %v: %v", i, c.stack, got)
		}
	}
	if got := s.Unused(); !slices.Equal(got, []string{"leak:never*here"}) {
		t.Errorf("unused: %q", got)
	}
	r := &Report{Sites: []Site{{ID: 7, Stack: foo}, {ID: 8, Stack: stack("main")}},
		Leaks: []Leak{{Site: 7, Kind: "definite", Bytes: 2048, Count: 3}, {Site: 8, Kind: "definite"}}}
	s.Apply(r)
	if len(r.Leaks) != 1 || r.Leaks[0].Site != 8 || !slices.Equal(r.Warnings, []string{"3 leaked blocks of 2.00 KiB are suppressed"}) {
		t.Errorf("%+v, %q", r.Leaks, r.Warnings)
	}
}

func TestSuppressionsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"leak:":                              "line 1: ",
		"{\n x\n Memcheck:Leak\n fun:f\n":    "no closing brace",
		"{\n x\n Memcheck:Leak\n}\n":         "names no function",
		"{\n x\n Memcheck:Leak\n fnu:f\n}\n": "fnu:f",
		"leak:a\n\nrace:b\n":                 "line 3: ",
		"{":                                  "no closing brace",
	} {
		if _, err := ParseSuppressions(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
