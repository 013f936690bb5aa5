//go:build integration

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
)

// Hundreds of processes in one session: each with its own totals, nothing
// lost, in bounded memory, and children of whoever comes are seen from their
// first instruction.
func TestAllProcesses(t *testing.T) {
	const processes = 200
	children := make([]*child, processes)
	for i := range children {
		children[i] = program(t, "every_function")
	}
	forks := program(t, "births", "fork", "20", "2")
	tr := attachAll(t)
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
	if r.Events.Lost != 0 {
		t.Errorf("lost: %+v", r.Events.LostBy)
	}
	byPID := make(map[int]analyzer.Process)
	for _, p := range r.Processes {
		byPID[p.PID] = p
	}
	for _, c := range children {
		p, want := byPID[c.cmd.Process.Pid], c.total(t, "alloc")+c.total(t, "realloc")-c.total(t, "realloc_freed")
		if p.Heap.AllocCount != want || p.Heap.LiveBytes != c.total(t, "live_bytes") {
			t.Errorf("process %d: %d blocks, %d bytes live; want %d, %d", p.PID, p.Heap.AllocCount, p.Heap.LiveBytes, want, c.total(t, "live_bytes"))
		}
	}
	r.Warnings = nil // of processes that have nothing to do with the test
	r.Events.UnmatchedFree = 0
	forks.checkBirths(t, &r)
}

// attachAll starts memtrace on all processes.
func attachAll(t *testing.T) *tracing {
	t.Helper()
	return beginTracing(t, "--all", "--format", "json", "-i", "500ms")
}

// A container is found by the name of its control group.
func TestContainer(t *testing.T) {
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
	said, code := memtrace(t, "--container", "no-such-container", "-d", "1s")
	if code != exitFailed || !strings.Contains(said, "no process is in the container, pod or unit no-such-container") {
		t.Errorf("exit code %d, says %q", code, said)
	}
	said, code = memtrace(t, "--all", "-p", strconv.Itoa(os.Getpid()))
	if code != exitUsage || !strings.Contains(said, "--all leaves nothing to choose") {
		t.Errorf("exit code %d, says %q", code, said)
	}
}
