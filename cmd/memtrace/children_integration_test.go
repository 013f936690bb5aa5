//go:build integration

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// births are the ways to make a child; see testdata/programs/births.c. Each
// allocates as its first act.
var births = []struct {
	how      string
	children string
}{
	{"fork", "50"}, {"tree", "20"}, {"thread", "20"}, {"exec", "20"}, {"static", "10"},
	{"vfork", "20"}, {"clone_vm", "20"}, {"spawn", "20"},
}

func TestChildrenAreSeenFromTheirFirstInstruction(t *testing.T) {
	t.Parallel()
	for _, b := range births {
		t.Run("attach/"+b.how, func(t *testing.T) {
			t.Parallel()
			c := program(t, "births", b.how, b.children, "2")
			tr := attach(t, c.cmd.Process.Pid)
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			if err := c.end(); err != nil {
				t.Error(err)
			}
			c.checkForks(t, &r)
		})
		t.Run("run/"+b.how, func(t *testing.T) {
			t.Parallel()
			c, r := runUnderTrace(t, "births", b.how, b.children, "2")
			c.checkForks(t, &r)
			for _, p := range r.Processes {
				if p.Attached {
					t.Errorf("process %d is said to have blocks from before the attach", p.PID)
				}
			}
		})
	}
}

// checkForks compares what was seen of all processes at each site with what
// the program says.
func (c *child) checkForks(t *testing.T, r *report.Report) {
	t.Helper()
	for _, problem := range c.forkErrors(t, r) {
		t.Error(problem)
	}
}

// forkErrors says what differs.
func (c *child) forkErrors(t *testing.T, r *report.Report) (problems []string) {
	t.Helper()
	type sums struct{ count, bytes, frees uint64 }
	got := make(map[string]sums)
	for _, s := range r.Sites {
		sum := got[s.Function]
		got[s.Function] = sums{sum.count + s.AllocCount, sum.bytes + s.AllocBytes, sum.frees + s.FreeCount}
	}
	sites, _ := c.answer["sites"].([]any)
	if len(sites) == 0 {
		t.Fatal("the program named no sites")
	}
	for _, site := range sites {
		f := site.(map[string]any)
		n := func(key string) uint64 { return uint64(f[key].(float64)) }
		if name, want := f["function"].(string), (sums{n("alloc"), n("alloc_bytes"), n("free")}); got[name] != want {
			problems = append(problems, fmt.Sprintf("%s: blocks, bytes, frees are %v, want %v", name, got[name], want))
		}
	}
	if len(problems) > 0 {
		problems = append(problems, fmt.Sprintf("all sites: %v; events: %+v", got, r.Events))
	}
	if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || len(r.Warnings) > 0 {
		problems = append(problems, fmt.Sprintf("%d lost, %d frees unmatched, warnings %q", r.Events.Lost, r.Events.UnmatchedFree, r.Warnings))
	}
	return problems
}

// runUnderTrace runs a test program under memtrace run.
func runUnderTrace(t *testing.T, name string, args ...string) (*child, report.Report) {
	t.Helper()
	return runWith(t, nil, filepath.Join("..", "..", "build", "testdata", name), args...)
}

// runWith is runUnderTrace of a program anywhere, with flags of memtrace's.
func runWith(t *testing.T, flags []string, path string, args ...string) (*child, report.Report) {
	t.Helper()
	return runAnswering(t, nil, flags, append([]string{path, "run"}, args...))
}

// runAnswering has memtrace run a command that ends with a program's answer. env
// is added to the environment of both.
func runAnswering(t *testing.T, env, flags, command []string) (*child, report.Report) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.Command(self, slices.Concat([]string{"run", "--format", "json", "--report", file}, flags, []string{"--"}, command)...)
	cmd.Env = append(append(os.Environ(), asMemtrace+"=1"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{}
	if err := json.Unmarshal(out, &c.answer); err != nil {
		t.Fatalf("parse the answer %q: %v", out, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("parse the Report: %v", err)
	}
	return c, r
}

// A prefork server: its children live on, and have copies of its blocks.
func TestPreforkServer(t *testing.T) {
	t.Parallel()
	const children = 20
	c := program(t, "births", "prefork", "20")
	tr := attach(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	tr.checkMemory(1 << 20)
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	c.checkForks(t, &r)
	if len(r.Processes) != children+1 {
		t.Fatalf("%d processes, want the server and %d children", len(r.Processes), children)
	}
	// The parent's 10 blocks of 1000 bytes, and 2 of 100 of its own.
	for _, p := range r.Processes[1:] {
		if p.Exited || p.Heap.LiveBytes != 10_200 || p.Heap.AllocCount != 5 {
			t.Errorf("process %d: exited %v, %d bytes live, %d blocks allocated; want running, 10200, 5", p.PID, p.Exited, p.Heap.LiveBytes, p.Heap.AllocCount)
		}
	}
}

// A process that another tracer holds is traced all the same; its children are
// seen only once they are attached to, which is said.
func TestTargetUnderADebugger(t *testing.T) {
	t.Parallel()
	c := program(t, "births", "fork", "1")
	debugger := exec.Command("gdb", "-nx", "-q", "-p", c.pid(), "-ex", "set follow-fork-mode parent", "-ex", "echo attached\\n", "-ex", "continue")
	in, err := debugger.StdinPipe() // its end ends gdb
	if err != nil {
		t.Fatal(err)
	}
	out, err := debugger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := debugger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = debugger.Process.Kill()
		_ = debugger.Wait()
	})
	waitFor(t, out, "Continuing.")
	tr := attach(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if got, want := r.Processes[0].Heap.AllocCount, uint64(10); got != want {
		t.Errorf("%d blocks seen of the process itself, want %d", got, want)
	}
	if warnings := strings.Join(r.Warnings, "\n"); !strings.Contains(warnings, "traced by process "+itoa(debugger.Process.Pid)) {
		t.Errorf("the warnings do not name the debugger: %q", warnings)
	}
}

// memtrace is killed while children come and go: all run on to their end.
func TestSIGKILLWhileChildrenAreBorn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fork", "vfork", "spawn", "tree"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				killAtStart(t, how)
			}
		})
	}
}

func killAtStart(t *testing.T, how string) {
	t.Helper()
	c := program(t, "births", how, "200", "4")
	tr := attach(t, c.cmd.Process.Pid)
	done := make(chan error, 1)
	go func() { done <- c.proceed() }()
	r := tr.report()
	for len(r.Processes) < 3 { // they have begun
		r = tr.report()
	}
	if err := tr.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tr.cmd.Wait()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Errorf("%s: %v", how, err)
	}
}

func (c *child) pid() string { return itoa(c.cmd.Process.Pid) }

func itoa(n int) string { return strconv.Itoa(n) }

// waitFor reads until a line contains text.
func waitFor(t *testing.T, from io.Reader, text string) {
	t.Helper()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("never said %q: %v", text, lines.Err())
}

// 10,000 children that live for a millisecond: what all of them do is counted,
// and memtrace does not grow with them. It holds a child for two seconds at most: on
// a busy machine it may be too late for some, and then says of how many.
func TestForkStorm(t *testing.T) {
	const children = 10_000
	others := startForeignLoad(t)
	c := program(t, "births", "fork", itoa(children), "4")
	tr := attach(t, c.cmd.Process.Pid, "-i", "1s")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	tr.checkMemory(1 << 20)
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if busy := others.share(t); busy < quiet {
		c.checkForks(t, &r)
	} else {
		c.checkSeenOrSaid(t, &r, children)
	}
	listed, summed := len(r.Processes), 0
	for _, p := range r.Processes {
		summed += p.Children
	}
	if listed-2+summed != children || summed == 0 { // less the parent and the line for those that are not listed
		t.Errorf("%d processes listed, %d children summed up; want %d children in all", listed, summed, children)
	}
}

var leftAlone = regexp.MustCompile(`^(\d+) child process(es)? (could not be attached to|came while)`)

// checkSeenOrSaid requires that no more is missing of children that do all the same
// than what those did that memtrace says it has not seen.
func (c *child) checkSeenOrSaid(t *testing.T, r *report.Report, children int) {
	t.Helper()
	said := 0
	for _, w := range r.Warnings {
		if n := leftAlone.FindStringSubmatch(w); n != nil {
			count, err := strconv.Atoi(n[1])
			if err != nil {
				t.Fatal(err)
			}
			said += count
		}
	}
	t.Logf("of %d children, %d were not seen", children, said)
	got := make(map[string]int)
	for _, s := range r.Sites {
		got[s.Function] += int(s.AllocCount)
	}
	for _, site := range c.answer["sites"].([]any) {
		f := site.(map[string]any)
		name, want := f["function"].(string), int(f["alloc"].(float64))
		if missing := want - got[name]; missing < 0 || missing > said*(want/children) {
			t.Errorf("%s: %d of %d blocks, of all but %d children; %q", name, got[name], want, said, r.Warnings)
		}
	}
	if r.Events.Lost != 0 {
		t.Errorf("lost: %+v", r.Events.LostBy)
	}
}

// checkMemory requires that memtrace has taken no more than so many KiB at any time.
func (tr *tracing) checkMemory(limit int) {
	tr.t.Helper()
	status, err := os.ReadFile("/proc/" + itoa(tr.cmd.Process.Pid) + "/status")
	if err != nil {
		tr.t.Fatal(err)
	}
	kib := statusNumber(tr.t, string(status), "VmHWM:")
	tr.t.Logf("memtrace took %d KiB at the most", kib)
	if kib > limit {
		tr.t.Errorf("memtrace took %d KiB, want at most %d", kib, limit)
	}
}

func statusNumber(t *testing.T, status, key string) int {
	t.Helper()
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in the status", key)
	return 0
}

// A shell's commands are vforked or forked, and executed.
func TestShellScript(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs(filepath.Join("..", "..", "build", "testdata", "births"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "report.json")
	script := "for i in 1 2 3 4 5; do " + file + " executed; done; " + file + " executed | cat; ( " + file + " executed ); " + file + "_static executed"
	cmd := exec.Command(self, "run", "--format", "json", "--report", out, "--", "/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	var blocks, bytes uint64
	for _, s := range r.Sites {
		if s.Function == "in_program" {
			blocks, bytes = blocks+s.AllocCount, bytes+s.AllocBytes
		}
	}
	if blocks != 8*7 || bytes != 8*7*300 {
		t.Errorf("%d blocks of %d bytes, want 56 of 16800: %q", blocks, bytes, r.Warnings)
	}
}

// A program that a script starts brings an allocator along that the script
// does not have: its first allocations count.
func TestChildrenAreSeenWithAllocatorsOfTheirOwn(t *testing.T) {
	t.Parallel()
	target := filepath.Join("..", "..", "build", "testdata", "every_function")
	for name, script := range map[string][]string{
		"env":  {"/usr/bin/env", "LD_PRELOAD=" + privateLibrary(t, jemallocLib), target, "run", "no-pvalloc"},
		"musl": {"/bin/sh", "-c", target + "_musl run; true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := runAnswering(t, nil, nil, script)
			c.checkSites(t, &r)
			for _, p := range r.Processes {
				if p.Attached {
					t.Errorf("process %d (%s) is said to have blocks from before the attach", p.PID, p.Exe)
				}
			}
		})
	}
}
