package symbol

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// tool runs a program of the GNU toolchain, which these tests need.
func tool(t testing.TB, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is needed to build and judge test programs: install what .ci/packages lists", name)
	}
	cmd := exec.Command(path, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// built is where programs are compiled to, once for each way of building.
var built struct {
	sync.Mutex
	dir      string
	programs map[string]func() (string, error)
}

// compile builds a program of testdata and returns the path of a copy, which
// is the caller's to change.
func compile(t testing.TB, source string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	if slices.Contains(flags, "-gsplit-dwarf") {
		// The name of the other file depends on this one's.
		if _, err := compileTo(out, source, flags); err != nil {
			t.Fatal(err)
		}
		return out
	}
	key := source + " " + strings.Join(flags, " ")
	built.Lock()
	build := built.programs[key]
	if build == nil {
		name := filepath.Join(built.dir, strconv.Itoa(len(built.programs)))
		build = sync.OnceValues(func() (string, error) { return compileTo(name, source, flags) })
		built.programs[key] = build
	}
	built.Unlock()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, program, out)
	return out
}

func compileTo(out, source string, flags []string) (string, error) {
	cc := "gcc"
	if strings.HasSuffix(source, ".cc") {
		cc = "g++"
	}
	source, err := filepath.Abs(filepath.Join("testdata", source))
	if err != nil {
		return "", err
	}
	text, err := exec.Command(cc, append([]string{"-o", out, source}, flags...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s %q: %w\n%s", cc, source, flags, err, text)
	}
	return out, nil
}

// child is a test program that printed a line and waits.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	words []string // of the line it printed last
}

func start(t testing.TB, path string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(path, args...)}
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop() })
	c.out = bufio.NewReader(stdout)
	c.read(t)
	return c
}

// read waits for the next line of the child.
func (c *child) read(t testing.TB) {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s ended before it printed: %v", c.cmd.Path, err)
	}
	c.words = strings.Fields(line)
}

// stop ends the child and waits until it has gone.
func (c *child) stop() {
	c.stdin.Close()
	_ = c.cmd.Wait()
}

// address is word i of what the child printed.
func (c *child) address(t testing.TB, i int) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(c.words[i], "0x"), 16, 64)
	if err != nil {
		t.Fatalf("child printed %q: %v", c.words, err)
	}
	return v
}

// space is the child's Space; it is closed when the test ends.
func (c *child) space(t testing.TB) *Space {
	t.Helper()
	s, err := NewSpace("/proc", c.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestMain fails where a test leaves a file mapped.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "symbol")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir, built.programs = dir, map[string]func() (string, error){}
	code := m.Run()
	os.RemoveAll(dir)
	if n := len(files.files); n > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "%d files are still mapped after all tests\n", n)
		code = 1
	}
	os.Exit(code)
}

func newResolver(t testing.TB, o Options) *Resolver {
	r := NewResolver(o)
	t.Cleanup(r.Close)
	return r
}
