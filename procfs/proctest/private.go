package proctest

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Private is a program with files of its own: itself, its interpreter and the
// shared objects that it needs. Nobody else on the machine maps them, so that
// what its processes share, and what each of them has alone, does not change
// with what others run.
type Private struct{ Path, dir string }

// interpreter is the name of the copied interpreter. The kernel looks for it in
// the folder in which the program is started, as it is no absolute path.
const interpreter = "ld.so"

// Copy copies a program for the test, by another name.
func Copy(t testing.TB, program, name string) Private {
	t.Helper()
	dir := t.TempDir()
	p := Private{filepath.Join(dir, name), dir}
	copyFile(t, program, p.Path)
	f, err := elf.Open(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			p.copyObjects(t, segment)
		}
	}
	return p
}

// copyObjects copies the interpreter that a segment names, has the program use
// the copy, and copies all that it would load.
func (p Private) copyObjects(t testing.TB, segment *elf.Prog) {
	t.Helper()
	text, err := io.ReadAll(segment.Open())
	if err != nil {
		t.Fatal(err)
	}
	loader := string(bytes.TrimRight(text, "\x00"))
	list, err := exec.Command(loader, "--list", p.Path).Output()
	if err != nil {
		t.Fatalf("what %s needs: %v", p.Path, err)
	}
	for line := range strings.Lines(string(list)) {
		if name, file, ok := strings.Cut(strings.TrimSpace(line), " => /"); ok && !strings.Contains(name, "/") {
			copyFile(t, "/"+strings.Fields(file)[0], filepath.Join(p.dir, name))
		}
	}
	copyFile(t, loader, filepath.Join(p.dir, interpreter))
	program, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	own := make([]byte, len(text))
	copy(own, interpreter)
	copy(program[segment.Off:], own)
	if err := WriteProgram(p.Path, program); err != nil {
		t.Fatal(err)
	}
}

// Command makes a command of the program, which finds its own objects first.
func (p Private) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.Path, args...)
	cmd.Args[0] = filepath.Base(p.Path)
	cmd.Dir = p.dir
	// Other languages than C's bring files of the machine's along.
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+p.dir, "LC_ALL=C")
	return cmd
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteProgram(to, text); err != nil {
		t.Fatal(err)
	}
}

// WriteProgram writes a file that is executed next. A program that is open for writing can't be, and a child that is made
// meanwhile, as by a test that runs beside this one, would have it open until it has executed its own (go.dev/issue/22315).
func WriteProgram(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755)
}
