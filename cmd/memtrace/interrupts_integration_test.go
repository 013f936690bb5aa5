//go:build integration

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// silentServer is a server of debug files that never answers. It has the environment of a command name it.
func silentServer(t *testing.T, cmd *exec.Cmd) (asked chan string) {
	asked = make(chan string, 1024)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	cmd.Env = append(cmd.Environ(), "DEBUGINFOD_URLS="+server.URL, "DEBUGINFOD_TIMEOUT=86400",
		"DEBUGINFOD_CACHE_PATH="+t.TempDir())
	return asked
}

// awaitQuestion waits until a server is asked.
func awaitQuestion(t *testing.T, asked chan string) {
	t.Helper()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("memtrace asked no server")
	}
}

// saysInterrupted: there is a warning that says what was not fetched.
func saysInterrupted(t *testing.T, warnings []string) {
	t.Helper()
	if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "interrupted by a signal") }) {
		t.Errorf("warnings %q, want one that says what was not fetched", warnings)
	}
}

// TestSignalEndsAWaitForAServer: a server of debug files that never answers holds memtrace up no longer than until a
// signal, in a trace and after one, and the last Report comes all the same.
func TestSignalEndsAWaitForAServer(t *testing.T) {
	t.Parallel()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		for when, args := range map[string][]string{
			"in a trace": {"--format", "json", "-i", "100ms"},
			"at its end": {"--format", "json", "-i", "1h"},
		} {
			t.Run(unix.SignalName(sig)+" "+when, func(t *testing.T) {
				t.Parallel()
				p := startProgram(t, "every_function_stripped")
				args = append(args, "-p", strconv.Itoa(p.pid()), "--debuginfod", "--no-symbol-cache")
				cmd := memtraceCommand(t, args...)
				asked := silentServer(t, cmd)
				m := spawn(t, cmd)
				m.name = "memtrace"
				awaitTraced(t, p.pid())
				p.proceed()
				if when == "at its end" {
					p.end()
				}
				awaitQuestion(t, asked)
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				saysInterrupted(t, parseReport(t, m.lineWith(`"final":true`)).Warnings)
				m.end()
				if when != "at its end" {
					p.end()
				}
			})
		}
	}
}

// TestSignalAfterTheCommandEndsAWait: under run, signals end such a wait also once the command has got one, and has
// ended. What lives on of it does not wait.
func TestSignalAfterTheCommandEndsAWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo, child := filepath.Join(dir, "report"), filepath.Join(dir, "fifo"), filepath.Join(dir, "child")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const command = `(read line <"$0") & echo $! >"$1"; trap 'exit 3' INT; kill -INT $PPID; while :; do :; done`
	cmd := memtraceCommand(t, "run", "--format", "json", "--report", file, "--debuginfod", "--no-symbol-cache", "--",
		"sh", "-c", command, fifo, child)
	asked := silentServer(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitQuestion(t, asked)
	pid, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/status")
	if err != nil || !strings.Contains(string(status), "\nTracerPid:\t0\n") {
		t.Errorf("%v: the child that lives on is held by ptrace while the Report is made:\n%s", err, status)
	}
	if in, err := os.OpenFile(fifo, os.O_WRONLY, 0); err == nil { // the child reads it, and ends
		_ = in.Close()
	}
	if err := cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d, want the command's 3", code)
	}
	saysInterrupted(t, readReport(t, file).Warnings)
}
