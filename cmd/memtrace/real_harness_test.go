//go:build integration

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// patience bounds every wait for a process; nothing here takes that long
// unless it hangs.
const patience = 90 * time.Second

// testProgram is a program that `make testprograms` built.
func testProgram(name string) string {
	dir := os.Getenv("MEMTRACE_PROGRAMS")
	if dir == "" {
		dir = filepath.Join("..", "..", "build", "testdata")
	}
	return filepath.Join(dir, name)
}

// spawned is a process that a test started. It is killed at the test's end if
// it still runs.
type spawned struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of stdout
	errors *lockedBuffer
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// lockedBuffer can be read while a process still writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// spawn starts cmd with pipes on stdin and stdout.
func spawn(t *testing.T, cmd *exec.Cmd) *spawned {
	t.Helper()
	c := &spawned{
		t: t, name: filepath.Base(cmd.Path), cmd: cmd,
		lines: make(chan string, 4096), errors: &lockedBuffer{}, exited: make(chan struct{}),
	}
	cmd.Stderr = c.errors
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go c.read(out)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.exited
	})
	return c
}

// read passes stdout on line by line, then waits for the process.
func (c *spawned) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			c.lines <- strings.TrimSuffix(line, "\n")
		}
		if err != nil {
			break
		}
	}
	close(c.lines)
	c.err = c.cmd.Wait()
	close(c.exited)
}

func (c *spawned) pid() int { return c.cmd.Process.Pid }

// line returns the next line of stdout; false means its end.
func (c *spawned) line() (string, bool) {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		return line, ok
	case <-time.After(patience):
		c.t.Fatalf("%s said nothing for %v; on stderr it said: %s", c.name, patience, c.errors)
		return "", false
	}
}

// lineWith returns the next line of stdout that contains text.
func (c *spawned) lineWith(text string) string {
	c.t.Helper()
	for {
		line, ok := c.line()
		if !ok {
			c.t.Fatalf("%s ended without a line with %q; on stderr it said: %s", c.name, text, c.errors)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
}

func (c *spawned) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		c.t.Fatalf("write to %s: %v", c.name, err)
	}
}

func (c *spawned) signal(s unix.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("send %v to %s: %v", s, c.name, err)
	}
}

// end waits until the process has ended, and requires that it ended well.
func (c *spawned) end() {
	c.t.Helper()
	_ = c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(patience):
		c.t.Fatalf("%s did not end within %v; on stderr it said: %s", c.name, patience, c.errors)
	}
	if c.err != nil {
		c.t.Errorf("%s ended with %v; on stderr it said: %s", c.name, c.err, c.errors)
	}
}

// memtraceCommand runs the code under test as its users do.
func memtraceCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asMemtrace+"=1", "NO_COLOR=1")
	return cmd
}

// running is a memtrace that traces running processes and prints JSON.
type running struct{ *spawned }

// startTracing attaches to pids and returns once the probes are in place,
// which the first Report tells.
func startTracing(t *testing.T, pids []int, more ...string) *running {
	t.Helper()
	args := []string{"-p", strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ","), "[]"), "--format", "json", "-i", "200ms"}
	m := &running{spawn(t, memtraceCommand(t, append(args, more...)...))}
	m.name = "memtrace"
	m.report()
	return m
}

func parseReport(t *testing.T, line string) *report.Report {
	t.Helper()
	var r report.Report
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("parse the Report %.200q: %v", line, err)
	}
	return &r
}

// report returns the next Report.
func (m *running) report() *report.Report {
	m.t.Helper()
	line, ok := m.line()
	if !ok {
		<-m.exited
		m.t.Fatalf("memtrace ended (%v) without a final Report: %s", m.err, m.errors)
	}
	return parseReport(m.t, line)
}

// reportAfter returns a Report whose readings of the process are all of after now: the one that follows the first
// that is made after now. It may lack the last events where memtrace is behind: the final Report alone never does.
// What waits is not parsed: that can take longer than it takes memtrace to write more.
func (m *running) reportAfter() *report.Report {
	m.t.Helper()
	now := time.Now().UTC().Format(report.MadeFormat)
	for len(m.lines) > 0 {
		if _, ok := m.line(); !ok {
			break // report says so
		}
	}
	for m.report().Made.At <= now { // the pipe may have held it up
	}
	return m.report()
}

// finish waits for the final Report and for memtrace's good end.
func (m *running) finish() *report.Report {
	m.t.Helper()
	for {
		r := m.report()
		if r.Final {
			m.end()
			return r
		}
	}
}

// interrupt ends the trace as Ctrl-C does.
func (m *running) interrupt() *report.Report {
	m.t.Helper()
	m.signal(unix.SIGINT)
	return m.finish()
}

// processOf picks a process of a Report.
func processOf(t *testing.T, r *report.Report, pid int) *report.Process {
	t.Helper()
	for i := range r.Processes {
		if r.Processes[i].PID == pid {
			return &r.Processes[i]
		}
	}
	t.Fatalf("process %d is not in the Report", pid)
	return nil
}

// checkSound requires what is true of every final Report of a service: it has
// allocations, nothing was lost, and the parts of RSS add up to it.
func checkSound(t *testing.T, r *report.Report, pids ...int) {
	t.Helper()
	if r.Events.Lost != 0 {
		t.Errorf("%d events lost: %+v", r.Events.Lost, r.Events.LostBy)
	}
	if r.Events.Alloc == 0 || r.Events.Free == 0 {
		t.Errorf("saw %d allocations and %d frees", r.Events.Alloc, r.Events.Free)
	}
	for _, w := range r.Warnings {
		t.Logf("warning: %s", w)
	}
	for _, pid := range pids {
		p := processOf(t, r, pid)
		if got, want := p.RSSBy.Sum(), p.Usage.RSS; got != want || want == 0 {
			t.Errorf("process %d: the parts of RSS add up to %d, RSS is %d", pid, got, want)
		}
	}
}

// runTraced runs a command from its first instruction to its end under
// memtrace and returns the Report and the command's stdout.
func runTraced(t *testing.T, env []string, argv ...string) (*report.Report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	cmd := memtraceCommand(t, append([]string{"run", "--format", "json", "--report", file, "--"}, argv...)...)
	cmd.Env = append(cmd.Env, env...)
	c := spawn(t, cmd)
	var out strings.Builder
	for {
		line, ok := c.line()
		if !ok {
			break
		}
		out.WriteString(line + "\n")
	}
	c.end()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; on stderr memtrace said: %s", err, c.errors)
	}
	r := parseReport(t, string(text))
	if !r.Final || r.Events.Lost != 0 {
		t.Errorf("final is %v, %d events lost", r.Final, r.Events.Lost)
	}
	return r, out.String()
}

// counts are what a test program says of its own calls; testdata/programs/target.h.
type counts struct {
	Function      string
	Alloc         uint64
	Realloc       uint64
	ReallocFreed  uint64 `json:"realloc_freed"`
	Failed        uint64
	Free          uint64
	AllocBytes    uint64 `json:"alloc_bytes"`
	ReallocBytes  uint64 `json:"realloc_bytes"`
	LiveBytes     uint64 `json:"live_bytes"`
	LiveCount     uint64 `json:"live_count"`
	ReallocFailed uint64 `json:"realloc_failed"`
	Temporary     uint64
}

type answer struct {
	Program      string
	Total        counts
	Sites        []counts
	MallinfoUsed uint64 `json:"mallinfo_used"`
}

func parseAnswer(t *testing.T, line string) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("parse the answer %q: %v", line, err)
	}
	return a
}

// startProgram starts a test program that waits for a line before it allocates.
func startProgram(t *testing.T, name string, args ...string) *spawned {
	t.Helper()
	c := spawn(t, exec.Command(testProgram(name), append([]string{"attach"}, args...)...))
	c.lineWith("ready ")
	return c
}

// proceed lets a test program do its work, and returns what it says of it.
func (c *spawned) proceed() answer {
	c.t.Helper()
	c.say("go")
	return parseAnswer(c.t, c.lineWith(`"final":true`))
}

// eventually polls for a condition that the kernel or another process brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// need fails the test where a program of another package is missing.
func need(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		path := filepath.Join(dir, program)
		if err := unix.Access(path, unix.X_OK); err == nil {
			return path
		} else if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			t.Fatalf("look for %s: %v", path, err)
		}
	}
	t.Fatalf("%s is not installed; .ci/setup test installs all that the tests need", program)
	return ""
}

// checkBytesOf compares the bytes that each function of a test program allocated with what it says.
func checkBytesOf(t *testing.T, r *report.Report, want answer) {
	t.Helper()
	seen := make(map[string]uint64)
	for _, s := range r.Sites {
		seen[s.Function] += s.AllocBytes
	}
	for _, s := range want.Sites {
		if seen[s.Function] != s.AllocBytes+s.ReallocBytes {
			t.Errorf("%s: %d bytes were seen, %d were allocated", s.Function, seen[s.Function], s.AllocBytes+s.ReallocBytes)
		}
	}
}
