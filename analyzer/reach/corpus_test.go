package reach

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

const programs = "../../testdata/programs"

// corpus is the program of the same name, which says itself what of it is lost.
type corpus struct {
	cmd     *exec.Cmd
	process *procfs.Process
	want    map[uint64][]string // verdicts by size
	names   map[uint64]string
	blocks  []Leak // all live blocks
}

// buildCorpus compiles the program with further flags, and what it loads.
func buildCorpus(t testing.TB, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "leak_corpus")
	compile(t, "gcc", "-O1", "-g", "-fPIC", "-shared", "-o", filepath.Join(dir, "libleak_tls.so"), programs+"/leak_tls.c")
	compile(t, "g++", append([]string{"-std=c++17", "-O1", "-g", "-fno-builtin", "-fno-omit-frame-pointer", "-pthread",
		"-o", program, programs + "/leak_corpus.cc", "-Wl,-rpath,$ORIGIN", "-ldl"}, flags...)...)
	return program
}

func compile(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// startCorpus starts the program and reads what it says of itself.
func startCorpus(t testing.TB, program string) *corpus {
	t.Helper()
	c := &corpus{cmd: exec.Command(program), want: make(map[uint64][]string), names: make(map[uint64]string)}
	if _, err := c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	c.read(t, out)
	c.process = openProcess(t, c.cmd.Process.Pid)
	c.await(t)
	return c
}

// await waits until the program's first thread sleeps: while it runs, nobody
// knows how much of its stack is dead.
func (c *corpus) await(t testing.TB) {
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

func openProcess(t testing.TB, pid int) *procfs.Process {
	t.Helper()
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// read takes the program's account up to "ready".
func (c *corpus) read(t testing.TB, out io.Reader) {
	t.Helper()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if line == "ready" {
			return
		}
		var b Leak
		if _, err := fmt.Sscanf(line, "block 0x%x %d", &b.Addr, &b.Size); err == nil {
			c.blocks = append(c.blocks, b)
			continue
		}
		f := strings.SplitN(line, " ", 4)
		if len(f) != 4 || f[0] != "case" {
			t.Fatalf("the corpus said %q", line)
		}
		var size uint64
		if _, err := fmt.Sscan(f[2], &size); err != nil {
			t.Fatal(err)
		}
		c.names[size] = f[1]
		if f[3] == "one definite, one indirect" {
			c.want[size] = append(c.want[size], "definite", "indirect")
		} else {
			c.want[size] = append(c.want[size], f[3])
		}
	}
	t.Fatal("the corpus ended before it was ready")
}

func (c *corpus) each(yield func(addr, size uint64, site uint32) bool) {
	for i, b := range c.blocks {
		if !yield(b.Addr, b.Size, uint32(i)) {
			return
		}
	}
}

// stopAll seizes all threads of the program and reads their registers, as
// --stop does.
func stopAll(t testing.TB, p *procfs.Process) []Thread {
	t.Helper()
	runtime.LockOSThread() // up to the release, which only this thread can do: cleanups run after what the test defers
	var out []Thread
	t.Cleanup(func() {
		for _, thread := range out {
			Release(thread)
		}
		runtime.UnlockOSThread()
	})
	tids, err := p.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		thread, err := Stop(tid)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, thread)
	}
	return out
}

// verdicts are the kinds of the corpus's cases by size.
func (c *corpus) verdicts(r Result) map[uint64][]string {
	got := make(map[uint64][]string)
	found := make(map[uint64]Kind)
	for _, l := range r.Leaks {
		found[l.Addr] = l.Kind
	}
	for _, b := range c.blocks {
		if c.want[b.Size] != nil {
			got[b.Size] = append(got[b.Size], found[b.Addr].String())
		}
	}
	return got
}

// check compares verdicts, but for the cases excepted. Blocks that are no case
// are libc's own, and not lost.
func (c *corpus) check(t *testing.T, r Result, except map[string]string) {
	t.Helper()
	got := c.verdicts(r)
	for size, want := range c.want {
		if other, ok := except[c.names[size]]; ok {
			want = []string{other}
		}
		if !sameWords(got[size], want) {
			t.Errorf("%s (%d bytes): %v, want %v", c.names[size], size, got[size], want)
		}
	}
	for _, l := range r.Leaks {
		if c.want[l.Size] == nil && l.Kind != Indirect {
			t.Errorf("a block of %d bytes at %#x that is no case is %v", l.Size, l.Addr, l.Kind)
		}
	}
}

func sameWords(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	count := make(map[string]int)
	for i := range a {
		count[a[i]]++
		count[b[i]]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestCorpusStopped(t *testing.T) {
	c := startCorpus(t, buildCorpus(t))
	r, err := Scan(c.process, c.each, Options{Threads: stopAll(t, c.process), AllSeen: true})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, nil)
}

// TestLongListIsReachable follows a list from low to high addresses, against the sweep, and
// longer than the log of edges: most blocks are read again, again and again in the window that was read last.
func TestLongListIsReachable(t *testing.T) {
	program := filepath.Join(t.TempDir(), "long_list")
	compile(t, "gcc", "-O1", "-o", program, programs+"/long_list.c")
	c := startCorpus(t, program)
	for _, workers := range []int{1, 2, 1, 2} {
		r, err := Scan(c.process, c.each, Options{AllSeen: true, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Sums[Reachable].Count; n != uint64(len(c.blocks)) || n == 0 {
			t.Errorf("%d workers: %d of %d blocks are reachable, by kind %+v", workers, n, len(c.blocks), r.Sums)
		}
	}
}

// TestCorpusRunning scans the program as it runs: registers are not seen.
func TestCorpusRunning(t *testing.T) {
	c := startCorpus(t, buildCorpus(t))
	r, err := Scan(c.process, c.each, Options{AllSeen: true})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, map[string]string{"register": "definite"})
}

// TestRegistersOfARunningProcess: a block that the registers point to as the
// scan ends is reachable.
func TestRegistersOfARunningProcess(t *testing.T) {
	c := startCorpus(t, buildCorpus(t))
	var register uint64
	for _, b := range c.blocks {
		if c.names[b.Size] == "register" {
			register = b.Addr
		}
	}
	calls := 0
	r, err := Scan(c.process, c.each, Options{AllSeen: true, Registers: func() []uint64 {
		if calls++; calls < 2 {
			return nil
		}
		return []uint64{1, register}
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, nil)
}

// TestCorpusOfUnknownHeap scans it as if the trace had begun late: what was
// freed may then hold pointers.
func TestCorpusOfUnknownHeap(t *testing.T) {
	c := startCorpus(t, buildCorpus(t))
	r, err := Scan(c.process, c.each, Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, map[string]string{"register": "definite", "only_from_a_freed_block": "reachable"})
}
