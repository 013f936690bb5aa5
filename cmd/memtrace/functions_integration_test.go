//go:build integration

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer"
)

// ownFunctions describes those of testdata/programs/user_alloc.c.
var ownFunctions = []string{
	"--alloc-fn", "my_alloc:size=1,ret", "--alloc-fn", "my_calloc:size=1*2", "--alloc-fn", "my_realloc:ptr=0,size=1",
	"--alloc-fn", "user_alloc!my_memalign:size=0,out=1", "--alloc-fn", "bump_alloc:size=0",
	"--free-fn", "my_free:ptr=0", "--free-fn", "bump_free:ptr=0",
}

// The program's own functions are counted as it counts them, malloc inside
// them is theirs, and what they free of malloc's is not theirs.
func TestOwnFunctions(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "build", "testdata", "user_alloc")
	for name, more := range map[string][]string{
		"run":              nil,
		"run/uprobe_multi": {"--attach", "uprobe_multi"},
		"run/perf_cookie":  {"--attach", "perf_cookie"},
		"run/perf":         {"--attach", "perf"},
		"run/release":      {"--free-fn", "drop_all:ptr=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, append(more, ownFunctions...), path)
			c.checkSites(t, &r)
			if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 || len(r.Warnings) > 0 {
				t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
			}
		})
	}
	t.Run("attach", func(t *testing.T) {
		t.Parallel()
		c := program(t, "user_alloc")
		tr := attach(t, c.cmd.Process.Pid, ownFunctions...)
		if err := c.proceed(); err != nil {
			t.Fatal(err)
		}
		r := tr.interrupt()
		if err := c.end(); err != nil {
			t.Error(err)
		}
		c.checkSites(t, &r)
		if r.Events.UnmatchedFree != 0 {
			t.Errorf("%d frees unmatched", r.Events.UnmatchedFree)
		}
	})
}

// Functions that are left by exceptions, by longjmp and by a switch of stacks, and returned from in another order or by
// another thread: nothing of it is changed, or the program ends otherwise. What returns by itself is counted as the program counts it, and
// each other call is either counted or said to have been left.
func TestFunctionsThatAreLeft(t *testing.T) {
	t.Parallel()
	for _, m := range mechanismsHere(t) {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			checkLeaves(t, m)
		})
	}
}

func checkLeaves(t *testing.T, m tracer.Mechanism) {
	t.Helper()
	c, r := runWith(t, []string{"--attach", string(m), "--alloc-fn", "take:size=0", "--free-fn", "give:ptr=0",
		"--alloc-fn", "pass_on:size=0", "--free-fn", "pass_back:ptr=0", "--free-fn", "drop:ptr=0"},
		testProgram("leaves"))
	c.checkSites(t, &r)
	seen := uint64(0)
	for _, s := range r.Sites {
		switch s.Function {
		case "keep", "take_and_give", "take_and_drop", "keep_deeper", "fiber":
			seen += s.AllocCount
		}
	}
	said := func(name string) uint64 { n, _ := c.answer[name].(float64); return uint64(n) }
	left := r.Events.LostBy.Abandoned
	if seen+left != said("takes") || left < said("left") || left > said("left")+said("waited") ||
		r.Events.Lost != 0 || len(r.Warnings) > 0 {
		t.Errorf("saw %d calls, %d left; it made %d and left %d, %d waited; events %+v, warnings %q",
			seen, left, said("takes"), said("left"), said("waited"), r.Events, r.Warnings)
	}
}

// A function that no file has is an error, not a trace without it.
func TestOwnFunctionThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := program(t, "user_alloc")
	out, code := memtrace(t, "-p", c.pid(), "-d", "1s", "--alloc-fn", "my_aloc:size=1")
	if code != exitFailed || !strings.Contains(out, `no file that the processes mapped has the function "my_aloc:size=1"`) {
		t.Errorf("exit code %d, says %q", code, out)
	}
	_, r := runWith(t, []string{"--alloc-fn", "my_aloc:size=1"}, filepath.Join("..", "..", "build", "testdata", "user_alloc"))
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "my_aloc") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// --allocator leaves the allocators of other families alone.
func TestOneFamily(t *testing.T) {
	t.Parallel()
	for family, seen := range map[string]bool{"auto": true, "jemalloc": true, "glibc": false} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			env := []string{"LD_PRELOAD=" + privateLibrary(t, jemallocLib)}
			_, r := runAnswering(t, env, []string{"--allocator", family}, []string{testProgram("two_threads"), "run"})
			if (r.Events.Alloc > 0) != seen {
				t.Errorf("%d allocations of a program with jemalloc", r.Events.Alloc)
			}
		})
	}
}

// A family that no file has is not passed over in silence.
func TestFamilyThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, r := runWith(t, []string{"--allocator", "tcmalloc"}, filepath.Join("..", "..", "build", "testdata", "two_threads"))
	if r.Events.Alloc != 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "has the allocator tcmalloc") {
		t.Errorf("%d allocations, warnings %q", r.Events.Alloc, r.Warnings)
	}
}

// memtrace runs memtrace, and returns what it says on stderr and its exit code.
func memtrace(t *testing.T, args ...string) (string, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(cmd.Environ(), asMemtrace+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	err = cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(fmt.Errorf("run memtrace: %w", err))
	}
	return said.String(), cmd.ProcessState.ExitCode()
}

// What allocators offer beside malloc is counted as the program counts it.
func TestOwnInterfaces(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"jemalloc", "tcmalloc", "mimalloc"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			c, r := runUnderTrace(t, "interfaces_"+family)
			c.checkSites(t, &r)
			if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 || len(r.Warnings) > 0 {
				t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
			}
		})
	}
}

// A Rust program's own allocator is no malloc. Its blocks are the functions'
// that Rust's library was called by.
func TestOwnAllocatorOfRust(t *testing.T) {
	t.Parallel()
	c, r := runUnderTrace(t, "own_allocator")
	for i := range r.Sites {
		s := &r.Sites[i]
		for _, f := range s.Stack {
			if f.Function == "own_allocator::boxes" || f.Function == "own_allocator::grows" {
				s.Function = strings.TrimPrefix(f.Function, "own_allocator::")
			}
		}
	}
	c.checkSites(t, &r)
	if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 {
		t.Errorf("events %+v", r.Events)
	}
}

// A layer's blocks are its callers', and what it has from malloc is within.
func TestOwnFunctionsOfALayer(t *testing.T) {
	t.Parallel()
	c, r := runWith(t, []string{"--layer", "python"}, filepath.Join("..", "..", "build", "testdata", "python_blocks"))
	c.checkSites(t, &r)
	if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 || len(r.Warnings) > 0 {
		t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
	}
}

// Debian's python3 has its allocator inlined, which is said; as malloc's, the
// same blocks are all seen.
func TestPythonLayer(t *testing.T) {
	t.Parallel()
	const script = `
import sys
print("ready", flush=True)
sys.stdin.readline()
kept = [bytes(1000) for i in range(500)]
for i in range(0, 500, 4): kept[i] = None
print(sys.getsizeof(kept[1]), flush=True)
sys.stdin.readline()
`
	start := func(env ...string) *child {
		cmd := exec.Command("/usr/bin/python3", "-c", script)
		cmd.Env = append(os.Environ(), env...)
		c, err := startCommand(t, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := start()
	said, code := memtrace(t, "-p", c.pid(), "-d", "1s", "--layer", "python")
	if code != exitFailed || !strings.Contains(said, "the compiler has inlined the allocator") || !strings.Contains(said, "PYTHONMALLOC=malloc") {
		t.Errorf("exit code %d, says %q", code, said)
	}
	c = start("PYTHONMALLOC=malloc")
	tr := attach(t, c.cmd.Process.Pid, "--native") // else a line of Python is one site
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		t.Fatal(err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	for _, s := range r.Sites {
		if s.LiveCount == 375 && s.LiveBytes == 375*size && s.AllocCount == 500 {
			return
		}
	}
	t.Errorf("no site has 375 of 500 blocks of %d bytes", size)
}
