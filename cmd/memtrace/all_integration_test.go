//go:build integration

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Hundreds of processes in one session, in bounded memory: each with its own
// totals, and children of whoever comes are seen from their first instruction.
// All of the machine shares the rings: where others fill them, what is missing of
// these processes is counted as lost, which it must not be on a quiet machine.
func TestAllProcesses(t *testing.T) {
	const processes = 200
	others := startForeignLoad(t)
	children := make([]*child, processes)
	for i := range children {
		children[i] = program(t, "every_function")
	}
	forks := program(t, "births", "fork", "20", "2")
	// A Report of the whole machine takes memtrace a while, and only the first and the last are read.
	tr := beginTracing(t, "--all", "--risk-interpreters", "--format", "json", "--top", "0", "-i", "5s",
		"--back-pressure", "0")
	for _, c := range append(children, forks) {
		if err := c.proceed(); err != nil {
			t.Fatal(err)
		}
	}
	tr.checkMemory(1 << 20)
	r := tr.interrupt()
	for _, c := range append(children, forks) {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
	busy := others.share(t)
	t.Logf("others had %.0f %% of the machine, %d events lost", 100*busy, r.Events.Lost)
	checkTotals(t, &r, children)
	if r.Events.Lost != 0 {
		if busy < quiet {
			t.Errorf("lost: %+v", r.Events.LostBy)
		}
		return
	}
	r.Warnings = nil // of processes that have nothing to do with the test
	r.Events.UnmatchedFree = 0
	forks.checkForks(t, &r)
}

// checkTotals compares the blocks of processes with what they say: no more of
// them may be missing than there were events lost.
func checkTotals(t *testing.T, r *report.Report, children []*child) {
	t.Helper()
	byPID := make(map[int]report.Process)
	for _, p := range r.Processes {
		byPID[p.PID] = p
	}
	missing := uint64(0)
	for _, c := range children {
		p, traced := byPID[c.cmd.Process.Pid]
		want, live := c.total(t, "alloc")+c.total(t, "realloc")-c.total(t, "realloc_freed"), c.total(t, "live_bytes")
		if !traced || p.Heap.AllocCount > want || r.Events.Lost == 0 && p.Heap.LiveBytes != live {
			t.Errorf("process %d: traced %v, %d blocks, %d bytes live; want %d, %d", c.cmd.Process.Pid, traced, p.Heap.AllocCount, p.Heap.LiveBytes, want, live)
		}
		missing += want - min(want, p.Heap.AllocCount)
	}
	if missing > r.Events.Lost {
		t.Errorf("%d blocks of %d processes are missing, %d events were lost: %+v", missing, len(children), r.Events.Lost, r.Events.LostBy)
	}
}

// A container is found by the name of its control group.
func TestContainer(t *testing.T) {
	t.Parallel()
	mount := "/sys/fs/cgroup"
	if _, err := os.Stat(mount + "/memory/cgroup.procs"); err == nil {
		mount += "/memory" // version 1
	}
	id := strings.Repeat("5eed", 16)
	group := filepath.Join(mount, "docker-test", "docker-"+id+".scope")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(group)
		_ = os.Remove(filepath.Dir(group))
	})
	in, out := program(t, "two_threads"), program(t, "two_threads")
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(in.pid()), 0); err != nil {
		t.Fatal(err)
	}
	tr := beginTracing(t, "--container", id[:12], "--format", "json", "-i", "100ms")
	for _, c := range []*child{in, out} {
		if err := c.proceed(); err != nil {
			t.Fatal(err)
		}
	}
	r := tr.interrupt()
	for _, c := range []*child{in, out} {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
	if len(r.Processes) != 1 || r.Processes[0].PID != in.cmd.Process.Pid {
		t.Fatalf("traced %+v, want process %s alone", r.Processes, in.pid())
	}
	in.checkSites(t, &r)
}

// What is wrong with a choice is said.
func TestNoSuchContainer(t *testing.T) {
	t.Parallel()
	said, code := memtrace(t, "--container", "no-such-container", "-d", "1s")
	if code != exitFailed || !strings.Contains(said, "no process is in the container, pod or unit no-such-container") {
		t.Errorf("exit code %d, says %q", code, said)
	}
	said, code = memtrace(t, "--all", "-p", strconv.Itoa(os.Getpid()))
	if code != exitUsage || !strings.Contains(said, "--all cannot be combined with --pid") {
		t.Errorf("exit code %d, says %q", code, said)
	}
}
