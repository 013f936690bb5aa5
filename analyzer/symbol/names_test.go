package symbol

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestReturnAddress looks a return address up inside its call.
func TestReturnAddress(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	c := start(t, program)
	s, r := c.space(t), newResolver(t, Options{})
	source, err := os.ReadFile("testdata/inlines.c")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := bytes.Cut(source, []byte("void *at = where();"))
	line := bytes.Count(before, []byte("\n")) + 1
	returnsTo := c.address(t, 1)
	for name, frame := range map[string]*Frame{
		"alone":          r.Frames(s, []uint64{returnsTo}, true)[0],
		"behind another": r.Frames(s, []uint64{0, returnsTo}, false)[1],
	} {
		if frame.Function != "main" || frame.Line != line || filepath.Base(frame.File) != "inlines.c" {
			t.Errorf("%s: %+v, want main at inlines.c:%d", name, frame, line)
		}
	}
}

// TestLibcNames must say malloc, with libc's own symbols and with a debug
// file's, where it is called __libc_malloc.
func TestLibcNames(t *testing.T) {
	c := start(t, compile(t, "inlines.c", "-O1"))
	s, r := c.space(t), newResolver(t, Options{})
	malloc := c.address(t, 2)
	if got := r.Function(s, malloc); got != "malloc" {
		t.Errorf("Function: %q, want malloc", got)
	}
	f := r.Frames(s, []uint64{malloc}, false)
	last := f[len(f)-1]
	if last.Function != "malloc" || !strings.HasPrefix(filepath.Base(last.Module), "libc") {
		t.Errorf("Frames: %+v, want malloc of libc", last)
	}
}

// TestOutsideModules gives every address one frame that says where it is.
func TestOutsideModules(t *testing.T) {
	c := start(t, compile(t, "inlines.c", "-O1"))
	s, r := c.space(t), newResolver(t, Options{})
	if got, want := r.Frames(s, []uint64{0x10}, false), (Frame{Function: "0x10", Offset: 0x10}); len(got) != 1 || *got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, m := range s.current {
		if m.path == "[vdso]" {
			if f := r.Frames(s, []uint64{m.start + 0x800}, false)[0]; f.Function != "[vdso]" || f.Module != "[vdso]" {
				t.Errorf("got %+v, want [vdso]", f)
			}
			return
		}
	}
	t.Error("the child has no [vdso]")
}

// TestSymbolsWithoutSize names assembly by the label before it, but not what
// lies in another section: the PLT follows .init, where _init has no size.
func TestSymbolsWithoutSize(t *testing.T) {
	source := filepath.Join(t.TempDir(), "labels.s")
	code := ".globl _start\n.globl label\n.text\n_start: nop\n nop\nlabel: nop\n nop\n.section .text2, \"ax\"\nnop\nnop\n"
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "labels")
	tool(t, "gcc", "-nostdlib", "-static", "-o", program, source)
	s, r := fileSpace(t, program), newResolver(t, Options{})
	label := symbolValue(t, program, "label")
	for addr, want := range map[uint64]string{label - 1: "_start", label: "label", label + 1: "label", label + 2: hexName(label + 2)} {
		if got := r.Function(s, addr); got != want {
			t.Errorf("%#x: %q, want %q", addr, got, want)
		}
	}
}

// TestDemangle compares with c++filt.
func TestDemangle(t *testing.T) {
	names := []string{
		"_ZNSt6vectorIiSaIiEE9push_backERKi",
		"_ZN6shapes6CircleIdED0Ev",
		"_ZSt4sortIN9__gnu_cxx17__normal_iteratorIPiSt6vectorIiSaIiEEEEEvT_S7_",
		"_Zbroken", "main", "_start", "malloc",
	}
	for _, name := range names {
		want := strings.TrimSpace(tool(t, "c++filt", name))
		if got := readable(FullNames, name); got != want {
			t.Errorf("%s: %q, c++filt says %q", name, got, want)
		}
	}
	// The example of the Rust mangling's RFC 2603; c++filt adds the crate's hash.
	if got := readable(FullNames, "_RNvCskwGfYPst2Cb_3foo16example_function"); got != "foo::example_function" {
		t.Errorf("Rust: %q, want foo::example_function", got)
	}
	for name, want := range map[string]string{
		"_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector::push_back",
		"_ZN6shapes6CircleIdED0Ev":           "shapes::Circle::~Circle",
	} {
		if got := readable(ShortNames, name); got != want {
			t.Errorf("short %s: %q, want %q", name, got, want)
		}
	}
	long := "_Z1f" + strings.Repeat("St6vectorI", maxMangled)
	if got := readable(FullNames, long); got != long {
		t.Error("a name too long was not left as it is")
	}
}

// TestTruncatedFile truncates a mapped file between two lookups and before
// the first: the kernel then answers reads with SIGBUS.
func TestTruncatedFile(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	plain := symbolValue(t, program, "plain")
	for name, first := range map[string]bool{"after a lookup": true, "before any": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			copyFile(t, program, path)
			s, r := fileSpace(t, path), newResolver(t, Options{})
			if first {
				if got := r.Function(s, plain); got != "plain" {
					t.Fatalf("Function: %q, want plain", got)
				}
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			f := r.Frames(s, []uint64{plain + 1}, false)
			if len(f) != 1 || !strings.HasPrefix(f[0].Function, "0x") {
				t.Errorf("got %+v, want one frame without a name", f)
			}
			if w := r.Warnings(); len(w) == 0 || !strings.Contains(w[0], "truncated") {
				t.Errorf("warnings %q, want one that says truncated", w)
			}
		})
	}
}

// TestDamagedDWARF keeps symbols where .debug_info is garbage, with a warning.
func TestDamagedDWARF(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	plain := symbolValue(t, program, "plain")
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte{0xa5}, 2000), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, "objcopy", "--update-section", ".debug_info="+garbage, program)
	s, r := fileSpace(t, program), newResolver(t, Options{})
	f := r.Frames(s, []uint64{plain}, false)
	if len(f) != 1 || f[0].Function != "plain" || f[0].File != "" {
		t.Errorf("got %+v, want plain alone", f)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], program) || !strings.Contains(w[0], "unit at") {
		t.Errorf("warnings %q, want one on the damaged unit", w)
	}
}

// TestConcurrently lets the race detector look at lookups beside refreshes.
func TestConcurrently(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	c := start(t, program)
	s, r := c.space(t), newResolver(t, Options{})
	plain := c.address(t, 0)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 50 {
				if f := r.Frames(s, []uint64{plain + uint64(i%8), plain + 1}, false); f[len(f)-1].Function != "plain" {
					t.Errorf("got %+v, want plain", f)
				}
				if name := r.Function(s, plain); name != "plain" {
					t.Errorf("got %s, want plain", name)
				}
				if err := s.Refresh(0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestPrintable keeps what a file's strings could do to a terminal out.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"operator<< <int>": "operator<< <int>",
		"größe":            "größe",
		"a\x1b[2Jb\n\x7f":  "a\ufffd[2Jb\ufffd\ufffd",
		"\xff\u202e":       "\ufffd\ufffd",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
