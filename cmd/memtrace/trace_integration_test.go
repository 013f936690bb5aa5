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
	"strconv"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// tracing is memtrace attached to a process.
type tracing struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
}

// attach starts memtrace on a process and returns once it is attached: its
// first Report says so.
func attach(t *testing.T, pid int, flags ...string) *tracing {
	t.Helper()
	return beginTracing(t, append([]string{"-p", strconv.Itoa(pid), "--format", "json", "-i", "100ms"}, flags...)...)
}

// beginTracing starts memtrace with these arguments, which must choose JSON.
func beginTracing(t *testing.T, args ...string) *tracing {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	return startTracingBy(t, cmd)
}

// startTracingBy starts a memtrace, and returns once it has printed its first Report.
func startTracingBy(t *testing.T, cmd *exec.Cmd) *tracing {
	t.Helper()
	cmd.Stderr = os.Stderr
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
	tr := &tracing{t: t, cmd: cmd, out: bufio.NewReaderSize(out, 1<<20)}
	tr.report()
	return tr
}

func (tr *tracing) report() report.Report {
	tr.t.Helper()
	line, err := tr.out.ReadBytes('\n')
	if err != nil {
		tr.t.Fatalf("read a Report: %v", err)
	}
	var r report.Report
	if err := json.Unmarshal(line, &r); err != nil {
		tr.t.Fatalf("parse a Report: %v", err)
	}
	return r
}

// interrupt ends memtrace as Ctrl-C does and returns its last Report.
func (tr *tracing) interrupt() report.Report {
	tr.t.Helper()
	if err := tr.cmd.Process.Signal(os.Interrupt); err != nil {
		tr.t.Fatal(err)
	}
	return tr.end()
}

// end reads on until the last Report and memtrace's end.
func (tr *tracing) end() report.Report {
	tr.t.Helper()
	var r report.Report
	for !r.Final {
		r = tr.report()
	}
	if rest, err := io.ReadAll(tr.out); err != nil || len(rest) > 0 {
		tr.t.Errorf("after the last Report: %q, %v", rest, err)
	}
	if err := tr.cmd.Wait(); err != nil {
		tr.t.Errorf("memtrace: %v", err)
	}
	return r
}

// program starts a test program that waits to be told to go on.
func program(t *testing.T, name string, args ...string) *child {
	t.Helper()
	c, err := startChild(t, filepath.Join("..", "..", "build", "testdata", name), args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *child) total(t *testing.T, key string) uint64 {
	t.Helper()
	total, _ := c.answer["total"].(map[string]any)
	n, ok := total[key].(float64)
	if !ok {
		t.Fatalf("the program's answer has no total %s", key)
	}
	return uint64(n)
}

func TestAttachSeesWhatComesAfter(t *testing.T) {
	t.Parallel()
	programs := []string{"every_function", "two_threads", "cross_thread_free", "temporary"}
	if testing.Short() {
		programs = programs[:1]
	}
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := program(t, name)
			tr := attach(t, c.cmd.Process.Pid)
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			if err := c.end(); err != nil {
				t.Error(err)
			}
			checkReport(t, &r)
			c.checkSites(t, &r)
		})
	}
}

// checkSites compares each call site with what the program says of it. A
// function may have several sites: one a call.
func (c *child) checkSites(t *testing.T, r *report.Report) {
	t.Helper()
	for _, problem := range c.siteErrors(t, r) {
		t.Error(problem)
	}
}

// siteErrors says which call sites differ from what the program says of them.
func (c *child) siteErrors(t *testing.T, r *report.Report) (problems []string) {
	t.Helper()
	type sums struct{ live, count, allocs uint64 }
	got := make(map[string]sums)
	for _, s := range r.Sites {
		sum := got[s.Function]
		got[s.Function] = sums{sum.live + s.LiveBytes, sum.count + s.LiveCount, sum.allocs + s.AllocCount}
	}
	sites, _ := c.answer["sites"].([]any)
	if len(sites) == 0 {
		t.Fatal("the program named no sites")
	}
	for _, site := range sites {
		f := site.(map[string]any)
		n := func(key string) uint64 { return uint64(f[key].(float64)) }
		want := sums{n("live_bytes"), n("live_count"), n("alloc") + n("realloc") - n("realloc_freed")}
		if name := f["function"].(string); got[name] != want {
			problems = append(problems, fmt.Sprintf("%s: live bytes, live blocks, allocations are %v, want %v", name, got[name], want))
		}
	}
	return problems
}

// checkReport checks what must hold of every complete Report.
func checkReport(t *testing.T, r *report.Report) {
	t.Helper()
	if r.Events.Lost != 0 {
		t.Errorf("lost events: %+v", r.Events.LostBy)
	}
	for _, p := range r.Processes {
		if p.RSSBy.Sum() != p.Usage.RSS {
			t.Errorf("process %d: rss_by adds up to %d, RSS is %d", p.PID, p.RSSBy.Sum(), p.Usage.RSS)
		}
	}
}

func TestTargetThatExitsEndsTheTrace(t *testing.T) {
	t.Parallel()
	c := program(t, "two_threads")
	tr := attach(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	r := tr.end()
	if !r.Processes[0].Exited || len(r.Sites) == 0 {
		t.Fatalf("exited %v, %d sites", r.Processes[0].Exited, len(r.Sites))
	}
	if got := r.Sites[0].Stack[0]; got.File == "" || got.Line == 0 {
		t.Errorf("the first frame of %s has no source line after the exit", r.Sites[0].Function)
	}
}

func TestSIGKILLLeavesTheTargetUnprobed(t *testing.T) {
	t.Parallel()
	c := program(t, "two_threads")
	tr := attach(t, c.cmd.Process.Pid)
	if err := tr.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tr.cmd.Wait()
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func TestTwoTracersOnOneTarget(t *testing.T) {
	t.Parallel()
	c := program(t, "every_function")
	first, second := attach(t, c.cmd.Process.Pid), attach(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*tracing{first, second} {
		r := tr.interrupt()
		checkReport(t, &r)
		if got, want := r.Processes[0].Heap.LiveBytes, c.total(t, "live_bytes"); got != want {
			t.Errorf("live bytes: %d, want %d", got, want)
		}
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// The program's children and what it executes wait two seconds before they
// allocate, which is time enough to attach to them.
func TestFollowsForkAndExec(t *testing.T) {
	t.Parallel()
	c := program(t, "fork_exec", "2000")
	tr := attach(t, c.cmd.Process.Pid)
	answers, err := c.proceedAll()
	if err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	live := make(map[int]uint64)
	for _, p := range r.Processes {
		live[p.PID] = p.Heap.LiveBytes
	}
	followed := 0
	for _, a := range answers {
		if a.How != "fork" && !a.Final {
			continue
		}
		followed++
		if got := live[a.PID]; got != a.Total.LiveBytes {
			t.Errorf("process %d (%s): %d live bytes, want %d", a.PID, a.How, got, a.Total.LiveBytes)
		}
	}
	if followed != 4 {
		t.Errorf("the program told of %d followed processes, want 3 children and itself", followed)
	}
}
