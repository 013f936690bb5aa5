//go:build linux && !viewer

package goheap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// build compiles one of the programs in testdata, with the Go of a root directory, "" for the one that runs the tests.
func build(t testing.TB, root, name string, args ...string) string {
	t.Helper()
	tool := "go"
	if root != "" {
		tool = filepath.Join(root, "bin", "go")
	}
	out := filepath.Join(t.TempDir(), name)
	source, err := filepath.Abs(filepath.Join("testdata", name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, append(append([]string{"build", "-o", out}, args...), source)...)
	cmd.Dir = t.TempDir() // no module
	cmd.Env = append(os.Environ(), "GO111MODULE=off", "GOFLAGS=", "GOTOOLCHAIN=local")
	if root != "" {
		cmd.Env = append(cmd.Env, "GOROOT="+root)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	return out
}

// A subject is a program of testdata that runs.
type subject struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func start(t testing.TB, path string, env ...string) *subject {
	t.Helper()
	cmd := exec.Command(path)
	// Without collections of its own, the profile stays as the last one left it.
	cmd.Env = append(append(os.Environ(), "GOGC=off"), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &subject{t, cmd, in, bufio.NewReader(out)}
	s.answer()
	return s
}

func (s *subject) answer() string {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (s *subject) ask(command string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
	return s.answer()
}

// profile is the program's own.
func (s *subject) profile() *profile.Profile {
	s.t.Helper()
	var n int
	if _, err := fmt.Sscanf(s.ask("profile"), "profile %d", &n); err != nil {
		s.t.Fatal(err)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(s.out, data); err != nil {
		s.t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *subject) open() *Reader {
	s.t.Helper()
	r, err := Open(s.cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(r.Close)
	return r
}

func read(t testing.TB, r *Reader) *Profile {
	t.Helper()
	p, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// figures of a stack, in the order of pprof's sample types: allocated objects and bytes, those in use.
type figures [4]int64

// theirs are the program's own figures by stack.
func theirs(p *profile.Profile) map[string]figures {
	out := make(map[string]figures)
	for _, s := range p.Sample {
		var key strings.Builder
		for _, l := range s.Location {
			for _, line := range l.Line {
				fmt.Fprintf(&key, "%s %s:%d\n", line.Function.Name, line.Function.Filename, line.Line)
			}
		}
		sum := out[key.String()]
		for i := range sum {
			sum[i] += s.Value[i]
		}
		if sum == (figures{}) {
			continue // sampled after the collection
		}
		out[key.String()] = sum
	}
	return out
}

func ours(r *Reader, p *Profile) map[string]figures {
	out := make(map[string]figures)
	for _, s := range p.Sites {
		var key strings.Builder
		for _, f := range r.Frames(s.Addrs) {
			fmt.Fprintf(&key, "%s %s:%d\n", f.Function, f.File, f.Line)
		}
		sum := out[key.String()]
		for i, v := range []uint64{s.Alloc.Count, s.Alloc.Bytes, s.InUse.Count, s.InUse.Bytes} {
			sum[i] += int64(v)
		}
		out[key.String()] = sum
	}
	return out
}

// compare fails where figures or stacks differ.
func compare(t *testing.T, got, want map[string]figures) {
	t.Helper()
	if len(want) == 0 {
		t.Error("the program's own profile is empty")
	}
	for key, w := range want {
		if g, ok := got[key]; !ok || g != w {
			t.Errorf("%v (found %v), want %v at\n%s", g, ok, w, key)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%v at what the program's own profile lacks:\n%s", got[key], key)
		}
	}
}
