//go:build integration

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
)

// spawnAs starts a test program under a given process ID, and returns nil if another process keeps that:
// the kernel gives the next ones after ns_last_pid, and others may be faster.
func spawnAs(t *testing.T, pid int, name string) *spawned {
	t.Helper()
	for range 50 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, pid-1), 0); err != nil {
			t.Fatal(err)
		}
		p := spawn(t, exec.Command(testProgram(name), "attach"))
		if p.pid() == pid {
			p.lineWith("ready")
			return p
		}
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return nil
}

// takenOver holds a process that has ended, and returns the one that has its ID now.
func takenOver(t *testing.T, s *session, name string) (held *target, second *spawned) {
	t.Helper()
	for range 10 {
		first := spawn(t, exec.Command(testProgram(name), "attach"))
		first.lineWith("ready")
		held, err := holdTarget(s.fs, first.pid())
		if err != nil {
			t.Fatal(err)
		}
		_ = first.cmd.Process.Kill()
		<-first.exited
		if second := spawnAs(t, first.pid(), name); second != nil {
			return held, second
		}
		s.drop(held)
		t.Logf("another process has the ID %d", first.pid())
	}
	t.Fatal("no process got the ID of one that had ended")
	return nil, nil
}

func bareSession(t *testing.T) *session {
	t.Helper()
	s, err := newSession(settings{
		tracer: tracer.Config{StackDepth: 8, Unwind: tracer.UnwindFP}, interval: time.Second, gate: &job{},
	}, noOutput{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// A process that has taken over the ID of the one that was asked for is not
// traced, and keeps no probes.
func TestPIDIsReusedDuringTheAttach(t *testing.T) {
	s := bareSession(t)
	held, second := takenOver(t, s, "every_function")
	err := s.beginHeld(held)
	s.drop(held)
	if !errors.Is(err, procfs.ErrGone) {
		t.Errorf("attached with %v, want %v", err, procfs.ErrGone)
	}
	eventually(t, "the other process has no probes", func() bool { return patchedBytes(t, second.pid()) == 0 })
	if len(s.targets) != 0 {
		t.Errorf("targets are left: %v", s.targets)
	}
	second.proceed()
	second.end()
}

// Processes that end at any moment of the attach: each trace ends at once,
// either with a Report or with a word about what happened. How long an attach
// takes is seen first, with a process that ends once it is traced.
func TestProcessEndsDuringTheAttach(t *testing.T) {
	began := time.Now()
	p, m := beginAttach(t)
	if _, ok := m.line(); !ok {
		<-m.exited
		t.Fatalf("memtrace ended (%v) before it traced: %s", m.err, m.errors)
	}
	took := time.Since(began)
	if !endsTraced(t, p, m, "traced") {
		t.Error("a process that was traced is called one that had ended before")
	}
	const moments = 16
	refused := 0
	for i := range time.Duration(moments) {
		delay := took * 5 / 4 * i / moments
		p, m := beginAttach(t)
		time.Sleep(delay) // not a wait: the moment at which it ends
		if !endsTraced(t, p, m, fmt.Sprintf("%v old", delay)) {
			refused++
		}
	}
	t.Logf("the attach took %v; of %d processes that ended meanwhile %d were refused", took, moments, refused)
	if refused == 0 {
		t.Error("no process ended before it was attached to")
	}
}

// beginAttach has memtrace attach to a process that waits.
func beginAttach(t *testing.T) (p, m *spawned) {
	t.Helper()
	p = spawn(t, exec.Command(testProgram("every_function"), "attach"))
	p.lineWith("ready")
	return p, spawn(t, memtraceCommand(t, "-p", fmt.Sprint(p.pid()), "--format", "json", "-i", "100ms"))
}

// endsTraced kills a process and reports whether it was traced; else memtrace
// has to say that it ended.
func endsTraced(t *testing.T, p, m *spawned, state string) bool {
	t.Helper()
	_ = p.cmd.Process.Kill()
	last := ""
	for {
		line, ok := m.line()
		if !ok {
			break
		}
		last = line
	}
	<-m.exited
	code := m.cmd.ProcessState.ExitCode()
	if code == 0 {
		if !parseReport(t, last).Final {
			t.Errorf("of a process killed %s the last Report is not final", state)
		}
		return true
	}
	if code != exitFailed || !saysItEnded(m.errors.String()) {
		t.Errorf("of a process killed %s: code %d, on stderr %s", state, code, m.errors)
	}
	return false
}

// saysItEnded reports whether a text says so, in the words of whichever step
// of the attach came upon it first.
func saysItEnded(text string) bool {
	for _, words := range []string{
		procfs.ErrGone.Error(), "no such process", "has exited", "it ended meanwhile", "process already finished",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
