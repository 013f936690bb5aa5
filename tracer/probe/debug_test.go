//go:build amd64

package probe

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inspectWith inspects a file whose separate debug file may be found.
func inspectWith(t *testing.T, path string, at locator) Object {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, err := inspectAt(f, at, Choice{})
	if err != nil {
		t.Fatalf("inspect %s: %v", path, err)
	}
	return o
}

func probeNames(o Object) (names []string) {
	for _, p := range o.Probes {
		names = append(names, p.Name)
	}
	return names
}

// splitProgram links a static program with an allocator and a private one, and
// moves its symbols to a debug file, by which flags describe it.
func splitProgram(t *testing.T, flags ...string) (program, debug string, whole Object) {
	t.Helper()
	source := ".text\n" + allocatorAsm + asmFunction("je_malloc", "push %rbx\npop %rbx\nret") + asmFunction("je_free", "push %rbx\npop %rbx\nret") + asmFunction("_start", "ret")
	program = link(t, source, append([]string{"-static"}, flags...)...)
	whole = inspectFile(t, program)
	if got := probeNames(whole); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"free", "je_free", "je_malloc", "malloc"}) {
		t.Fatalf("the unstripped program has %v", got)
	}
	debug = filepath.Join(filepath.Dir(program), "code.debug")
	run(t, "objcopy", "--only-keep-debug", program, debug)
	return program, debug, whole
}

// A stripped program is probed where the unstripped one is.
func TestSeparateDebugFiles(t *testing.T) {
	check := func(t *testing.T, program string, at locator, whole Object) {
		t.Helper()
		o := inspectWith(t, program, at)
		if !reflect.DeepEqual(o.Probes, whole.Probes) || o.stripped {
			t.Errorf("probes %+v, want %+v; stripped %v", o.Probes, whole.Probes, o.stripped)
		}
	}
	none := func(t *testing.T, program string, at locator) {
		t.Helper()
		if o := inspectWith(t, program, at); len(o.Probes) != 0 || !o.stripped {
			t.Errorf("probes %+v, stripped %v; want none", o.Probes, o.stripped)
		}
	}
	t.Run("build ID", func(t *testing.T) {
		program, debug, whole := splitProgram(t, "-Wl,--build-id=sha1")
		run(t, "strip", program)
		dir := t.TempDir()
		at := locator{dirs: []string{dir}, path: program}
		none(t, program, at)
		name := filepath.Join(dir, ".build-id", whole.BuildID[:2], whole.BuildID[2:]+".debug")
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(debug, name); err != nil {
			t.Fatal(err)
		}
		check(t, program, at, whole)
		// Who could write there could have probes placed in the midst of instructions.
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		none(t, program, at)
		if o := inspectWith(t, program, at); len(o.Left) != 1 || !strings.Contains(o.Left[0], name) || !strings.Contains(o.Left[0], "others could have written it") {
			t.Errorf("it says %q, want that %s is not used", o.Left, name)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, other, _ := splitProgram(t, "-Wl,--build-id=0x1234")
		if err := os.Rename(other, name); err != nil {
			t.Fatal(err)
		}
		none(t, program, at) // another program's
	})
	t.Run("debug link", func(t *testing.T) {
		program, debug, whole := splitProgram(t, "-Wl,--build-id=none")
		run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, program)
		at := locator{path: program}
		check(t, program, at, whole)
		hidden := filepath.Join(filepath.Dir(program), ".debug")
		if err := os.Mkdir(hidden, 0o700); err != nil {
			t.Fatal(err)
		}
		moved := filepath.Join(hidden, "code.debug")
		if err := os.Rename(debug, moved); err != nil {
			t.Fatal(err)
		}
		check(t, program, at, whole)
		f, err := os.OpenFile(moved, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		none(t, program, at) // its checksum is another
	})
	t.Run("mini debug info", func(t *testing.T) {
		program, debug, whole := splitProgram(t)
		run(t, "objcopy", "-S", "--keep-symbol=malloc", "--keep-symbol=free", "--keep-symbol=je_malloc", "--keep-symbol=je_free", debug, debug+".mini")
		run(t, "xz", debug+".mini")
		run(t, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata="+debug+".mini.xz", program)
		check(t, program, locator{}, whole)
	})
}

// A program without a symbol table whose DWARF was left is probed all the same.
func TestAllocatorByDWARF(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "code.c")
	writeFile(t, source, `
void *malloc(unsigned long n) { static char heap[4096]; static unsigned long used; used += n; return heap + used - n; }
void free(void *p) { (void)p; }
static void *je_malloc(unsigned long n) { return malloc(n); }
static void je_free(void *p) { free(p); }
void (*volatile keep)(void *) = je_free;
void *(*volatile keep2)(unsigned long) = je_malloc;
static void free2(void *p) { free(p); }
void _start(void) { keep(keep2(1)); free2(0); }
`)
	program := filepath.Join(dir, "code")
	run(t, "gcc", "-g", "-O0", "-static", "-nostdlib", "-fno-builtin", "-o", program, source)
	whole := inspectFile(t, program)
	if len(whole.Probes) == 0 {
		t.Fatal("no probes in the whole program")
	}
	run(t, "objcopy", "--remove-section", ".symtab", "--remove-section", ".strtab", program)
	if o := inspectWith(t, program, locator{}); !reflect.DeepEqual(o.Probes, whole.Probes) {
		t.Errorf("probes %+v, want %+v", o.Probes, whole.Probes)
	}
}

// symbolAt is the address of a symbol as nm shows it.
func symbolAt(t *testing.T, path, name string) uint64 {
	t.Helper()
	for _, line := range strings.Split(run(t, "nm", path), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[2] == name {
			at, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatalf("%s has no %s", path, name)
	return 0
}

func inspectAsked(t *testing.T, path string, functions ...UserFunction) Object {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, err := inspectAt(f, locator{path: path}, Choice{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
