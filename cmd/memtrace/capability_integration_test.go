//go:build integration && services

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// Users that need not exist: who calls memtrace, and who owns what it traces.
const (
	callerID = 4242
	ownerID  = 4343
)

func asUser(cmd *exec.Cmd, id uint32) *exec.Cmd {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	return cmd
}

// openFolder is a folder that any user can enter, with a copy of a file.
func openFolder(t *testing.T, file string) (copied string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "memtrace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied = filepath.Join(dir, filepath.Base(file))
	if err := proctest.WriteProgram(copied, text); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, copied} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// granted is a copy of memtrace to which doctor's remedy was applied, to the letter.
func granted(t *testing.T) (command func(args ...string) *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := openFolder(t, self)
	command = func(args ...string) *exec.Cmd {
		cmd := asUser(exec.Command(copied, args...), callerID)
		cmd.Env = append(os.Environ(), asMemtrace+"=1", "HOME=/nonexistent", "XDG_CACHE_HOME=/nonexistent")
		return cmd
	}
	said, _ := command("doctor").Output() // it lacks everything, as it says
	done := false
	for line := range strings.Lines(string(said)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "sudo chown") {
			done = true
			if out, err := exec.Command("sh", "-c", strings.ReplaceAll(line, "sudo ", "")).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if !done {
		t.Fatalf("doctor names no command:\n%s", said)
	}
	return command
}

// TestDoctorsRemedyWorks: once its command was executed, doctor has nothing to ask
// for, and another user's process is traced to the last block.
func TestDoctorsRemedyWorks(t *testing.T) {
	t.Parallel()
	command := granted(t)
	if said, err := command("doctor").CombinedOutput(); err != nil || strings.Contains(string(said), "remedy") || strings.Contains(string(said), "missing") {
		t.Fatalf("doctor: %v\n%s", err, said)
	}
	target := asUser(exec.Command(openFolder(t, testProgram("every_function")), "attach"), ownerID)
	in, out := pipes(t, target)
	start(t, target)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		t.Fatalf("%q, %v", line, err)
	}
	tracing := command("-p", fmt.Sprint(target.Process.Pid), "--format", "json")
	var complaints bytes.Buffer
	tracing.Stderr = &complaints
	_, text := pipes(t, tracing)
	start(t, tracing)
	reports := bufio.NewReader(text)
	if _, err := reports.ReadString('\n'); err != nil { // the probes are in place
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close() // which ends it, and so the trace
	var last report.Report
	for {
		line, err := reports.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err := json.Unmarshal(line, &last); err != nil {
			t.Fatalf("%v: %.200s\n%s", err, line, complaints.String())
		}
	}
	var want struct {
		Total struct {
			Alloc uint64
			Live  uint64 `json:"live_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &want); err != nil || want.Total.Alloc == 0 {
		t.Fatalf("%v: %s", err, answer)
	}
	if last.Events.Alloc != want.Total.Alloc || last.Processes[0].Heap.LiveBytes != want.Total.Live || !last.Final || last.Processes[0].Usage.RSS == 0 {
		t.Errorf("%d allocations, %d bytes live; the program says %s\n%s", last.Events.Alloc, last.Processes[0].Heap.LiveBytes, answer, complaints.String())
	}
	_ = target.Wait()
	_ = tracing.Wait()
}

// TestFilesAreOpenedAsTheCaller: with rights of its own, memtrace reads and writes
// none of the files that its caller names and could not.
func TestFilesAreOpenedAsTheCaller(t *testing.T) {
	t.Parallel()
	command := granted(t)
	dir, err := os.MkdirTemp("", "memtrace-secret") // 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	secret, word := filepath.Join(dir, "file"), "the-first-line"
	if err := os.WriteFile(secret, []byte(word+":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := openFolder(t, secret)
	if err := os.Chmod(open, 0o600); err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprint(os.Getpid())
	for _, file := range []string{secret, open} {
		for _, args := range [][]string{
			{"run", "--fail-on", "definite", "--suppressions", file, "--", "/bin/true"},
			{"run", "--fail-on", "definite", "--baseline", file, "--", "/bin/true"},
			{"run", "--junit", file, "--", "/bin/true"}, {"run", "--gen-suppressions", file, "--", "/bin/true"},
			{"run", "--report", file, "--", "/bin/true"},
			{"matrix", "-i", file}, {"diff", file, file}, {"snapshot", "-o", file + ".new", "-p", self},
		} {
			said, err := command(args...).CombinedOutput()
			if err == nil || !strings.Contains(string(said), "permission denied") || strings.Contains(string(said), word) {
				t.Errorf("%q: %v\n%s", args, err, said)
			}
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != word+":\n" {
			t.Errorf("%s was changed: %q, %v", file, text, err)
		}
	}
}

func pipes(t *testing.T, cmd *exec.Cmd) (io.WriteCloser, io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
}
