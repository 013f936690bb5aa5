package probe

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestEmbeddedSuppressions reads the text from programs as compilers make them.
func TestEmbeddedSuppressions(t *testing.T) {
	const text = "leak:known_one\nleak:libold.so\n"
	constant := `const char *__lsan_default_suppressions(void) { return "leak:known_one\nleak:libold.so\n"; }`
	variable := `char text[] = "leak:x", *p = text; const char *__lsan_default_suppressions(void) { return p; }`
	for _, c := range []struct {
		source, want string
		err          error
		flags        []string
	}{
		{constant, text, nil, []string{"-O0"}},
		{constant, text, nil, []string{"-O2"}},
		{constant, text, nil, []string{"-O2", "-fcf-protection"}},
		{constant, text, nil, []string{"-O2", "-static", "-no-pie", "-fno-pie"}},
		{constant, text, nil, []string{"-O1", "-rdynamic", "-s"}},
		{`const char *__lsan_default_suppressions(void) { return 0; }`, "", nil, []string{"-O2"}},
		{variable, "", ErrNotConstant, []string{"-O2"}},
		{"", "", nil, []string{"-O2"}},
	} {
		dir := t.TempDir()
		source, program := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
		if err := os.WriteFile(source, []byte(c.source+"\nint main(void) { return 0; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("gcc", append(c.flags, "-o", program, source)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		f, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		got, err := EmbeddedSuppressions(f)
		_ = f.Close()
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q with %v: %q, %v; want %q, %v", c.source, c.flags, got, err, c.want, c.err)
		}
	}
}
