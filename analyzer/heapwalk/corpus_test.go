package heapwalk

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
)

// corpus is the program leak_corpus, which says itself what of it is lost. It
// does not tell what is allocated: its own table of addresses and sizes is only used to
// name what is found.
type corpus struct {
	process *procfs.Process
	want    map[uint64][]string // verdicts of the cases of a size
	names   map[uint64]string
	size    map[uint64]uint64 // by address
}

func buildCorpus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "leak_corpus")
	compile(t, "gcc", "-O1", "-g", "-fPIC", "-shared", "-o", filepath.Join(dir, "libleak_tls.so"), programs+"/leak_tls.c")
	compile(t, "g++", "-std=c++17", "-O1", "-g", "-fno-builtin", "-fno-omit-frame-pointer", "-pthread",
		"-o", program, programs+"/leak_corpus.cc", "-Wl,-rpath,$ORIGIN", "-ldl")
	return program
}

func startCorpus(t *testing.T, program string) *corpus {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := &corpus{want: make(map[uint64][]string), names: make(map[uint64]string), size: make(map[uint64]uint64)}
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			t.Fatal("the corpus ended before it was ready")
		}
		if lines.Text() == "ready" {
			break
		}
		c.take(t, lines.Text())
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	if c.process, err = fs.Process(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.process.Close() })
	c.await(t)
	return c
}

// await waits until the program's first thread sleeps: while it runs, nobody
// knows how much of its stack is dead.
func (c *corpus) await(t *testing.T) {
	t.Helper()
	for {
		_, sleeps, err := c.process.TaskStackPointer(c.process.PID())
		if err != nil {
			t.Fatal(err)
		}
		if sleeps {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *corpus) take(t *testing.T, line string) {
	t.Helper()
	var addr, size uint64
	if _, err := fmt.Sscanf(line, "block 0x%x %d", &addr, &size); err == nil {
		c.size[addr] = size
		return
	}
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 || f[0] != "case" {
		t.Fatalf("the corpus said %q", line)
	}
	if _, err := fmt.Sscan(f[2], &size); err != nil {
		t.Fatal(err)
	}
	c.names[size] = f[1]
	verdicts := []string{f[3]}
	if f[3] == "one definite, one indirect" {
		verdicts = []string{"definite", "indirect"}
	}
	c.want[size] = append(c.want[size], verdicts...)
}

// check compares the verdicts of all cases, but for those excepted.
func (c *corpus) check(t *testing.T, r *Result, except map[string]string) {
	t.Helper()
	kinds := make(map[uint64]string)
	for _, l := range r.Leaks {
		kinds[l.Addr] = l.Kind.String()
		if size, ok := c.size[l.Addr]; l.Kind == reach.Definite && (!ok || c.want[size] == nil) {
			t.Errorf("a block of %d bytes at %#x that is no case is definite", l.Size, l.Addr)
		}
	}
	got := make(map[uint64][]string)
	for addr, size := range c.size {
		if c.want[size] != nil {
			kind := kinds[addr]
			if kind == "" {
				kind = "reachable"
			}
			got[size] = append(got[size], kind)
		}
	}
	for size, want := range c.want {
		if other, ok := except[c.names[size]]; ok {
			want = []string{other}
		}
		slices.Sort(want)
		slices.Sort(got[size])
		if !slices.Equal(want, got[size]) {
			t.Errorf("%s (%d bytes): %v, want %v", c.names[size], size, got[size], want)
		}
	}
}

// TestCorpusUntraced: where the program runs on, registers are not read here.
func TestCorpusUntraced(t *testing.T) {
	program := buildCorpus(t)
	t.Run("running", func(t *testing.T) {
		c := startCorpus(t, program)
		r, err := Check(t.Context(), c.process, CheckOptions{Apart: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		c.check(t, r, map[string]string{"register": "definite"})
	})
	t.Run("stopped", func(t *testing.T) {
		c := startCorpus(t, program)
		r, err := Check(t.Context(), c.process, CheckOptions{Threads: stopAll(t, c.process)})
		if err != nil {
			t.Fatal(err)
		}
		c.check(t, r, nil)
	})
}
