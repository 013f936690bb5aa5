//go:build integration

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A signal ends memtrace before the command runs, whatever has begun by then: the command is not started, or
// it gets the signal.
func TestInterruptBeforeTheCommandRuns(t *testing.T) {
	t.Parallel()
	const loaded, held = "while the programs are loaded", "while the command is held"
	for moment, is := range map[string]func(pid int) bool{loaded: hasMaps, held: hasChild} {
		for _, command := range []string{"run", "record"} {
			t.Run(command+" "+moment, func(t *testing.T) {
				t.Parallel()
				args := []string{command}
				if command == "record" {
					args = append(args, "-o", filepath.Join(t.TempDir(), "recording"))
				}
				cmd := memtraceCommand(t, append(args, "--", "sleep", "30")...)
				var text strings.Builder
				cmd.Stderr = &text
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				for !is(cmd.Process.Pid) {
					time.Sleep(time.Millisecond)
				}
				if err := cmd.Process.Signal(unix.SIGINT); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // its code is looked at
				status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
				if moment == loaded && ok && status.Signaled() && status.Signal() == unix.SIGINT {
					return // it has come before memtrace could hear of it, and there is no command yet
				}
				if code := cmd.ProcessState.ExitCode(); code != 130 {
					t.Errorf("memtrace ended with %d, want 130 for SIGINT; it said:\n%s", code, text.String())
				}
			})
		}
	}
}

// hasMaps reports whether a process has made BPF maps, or has ended.
func hasMaps(pid int) bool {
	links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil || len(links) == 0 {
		return true
	}
	for _, link := range links {
		if to, _ := os.Readlink(link); to == "anon_inode:bpf-map" {
			return true
		}
	}
	return false
}

// hasChild reports whether a process has a child by now, or has ended.
func hasChild(pid int) bool {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil || len(tasks) == 0 {
		return true
	}
	for _, task := range tasks {
		if text, _ := os.ReadFile(task); len(text) > 0 {
			return true
		}
	}
	return false
}
