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

// spawnAs starts a test program under a given process ID, which must be free:
// the kernel gives the next ones after ns_last_pid, and others may be faster.
func spawnAs(t *testing.T, pid int, name string) *spawned {
	t.Helper()
	for range 2000 {
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
	t.Fatalf("no process got the ID %d", pid)
	return nil
}

func bareSession(t *testing.T) *session {
	t.Helper()
	s, err := newSession(settings{
		tracer: tracer.Config{StackDepth: 8, Unwind: tracer.UnwindFP}, interval: time.Second, gate: &gate{},
	}, silent{})
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
	first := spawn(t, exec.Command(testProgram("every_function"), "attach"))
	first.lineWith("ready")
	held, err := holdTarget(s.fs, first.pid())
	if err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Process.Kill()
	<-first.exited
	second := spawnAs(t, first.pid(), "every_function")
	err = s.beginHeld(held)
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
// either with a Report or with a word about what happened.
func TestProcessEndsDuringTheAttach(t *testing.T) {
	refused, reported := 0, 0
	for delay := time.Duration(0); delay < 900*time.Millisecond; delay += 60 * time.Millisecond {
		p := spawn(t, exec.Command(testProgram("every_function"), "attach"))
		p.lineWith("ready")
		m := spawn(t, memtraceCommand(t, "-p", fmt.Sprint(p.pid()), "--format", "json"))
		time.Sleep(delay) // not a wait: the moment at which it ends
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
		switch code := m.cmd.ProcessState.ExitCode(); {
		case code == 0 && parseReport(t, last).Final:
			reported++
		case code == exitFailed && saysItEnded(m.errors.String()):
			refused++
		default:
			t.Errorf("ended after %v: code %d, on stderr %s", delay, code, m.errors)
		}
	}
	if refused == 0 || reported == 0 {
		t.Errorf("%d were refused and %d traced: no process ended during an attach", refused, reported)
	}
}

func saysItEnded(text string) bool {
	for _, words := range []string{"no such process", "has exited", "it ended meanwhile", "process already finished"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
