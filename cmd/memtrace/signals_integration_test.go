//go:build integration

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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

// begun is memtrace, as the first of a process group, and the program that it runs.
type begun struct {
	cmd     *exec.Cmd
	out     *bufio.Reader
	program int // its PID
}

// begin starts memtrace run with the program signals, and waits until that can be sent signals.
func begin(t *testing.T, args ...string) *begun {
	t.Helper()
	cmd := memtraceCommand(t, append([]string{"run", "--report", filepath.Join(t.TempDir(), "report")}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &begun{cmd: cmd, out: bufio.NewReader(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if line, err := b.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program said %q (%v), want ready", line, err)
	}
	b.program = childOf(t, cmd.Process.Pid)
	return b
}

// childOf finds the program that memtrace runs.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may have ended
		for _, field := range strings.Fields(string(text)) {
			if name, _ := os.ReadFile("/proc/" + field + "/comm"); string(name) == "signals\n" {
				child, _ := strconv.Atoi(field)
				return child
			}
		}
	}
	t.Fatal("memtrace has no child of the name signals")
	return 0
}

// end waits for both and returns what the program said last, and memtrace's exit code.
func (b *begun) end(t *testing.T) (said string, code int) {
	t.Helper()
	all, err := io.ReadAll(b.out)
	if err != nil {
		t.Error(err)
	}
	err = b.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	return string(all), b.cmd.ProcessState.ExitCode()
}

// A signal that the program got itself is not passed on to it: neither where it went to the whole group, as a terminal's
// and `kill -PGID`'s do, nor where each process got its own. One that went to memtrace alone is.
func TestSignalsArePassedOnOnce(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(b *begun) error{
		"SIGINT to the group":     func(b *begun) error { return unix.Kill(-b.cmd.Process.Pid, unix.SIGINT) },
		"SIGTERM to the group":    func(b *begun) error { return unix.Kill(-b.cmd.Process.Pid, unix.SIGTERM) },
		"SIGTERM to memtrace":     func(b *begun) error { return unix.Kill(b.cmd.Process.Pid, unix.SIGTERM) },
		"SIGTERM to the program":  func(b *begun) error { return unix.Kill(b.program, unix.SIGTERM) },
		"to the program first":    func(b *begun) error { return killEach(b.program, b.cmd.Process.Pid) },
		"to the program second":   func(b *begun) error { return killEach(b.cmd.Process.Pid, b.program) },
		"to the group, and leaks": func(b *begun) error { return unix.Kill(-b.cmd.Process.Pid, unix.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--", testProgram("signals"), "count"}
			if strings.Contains(name, "leaks") {
				args = slices.Insert(args, 0, "--leaks")
			}
			for range 20 {
				b := begin(t, args...)
				began := time.Now()
				if err := send(b); err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				said, code := b.end(t)
				if took >= togetherAfter { // of a busy machine: they are no longer one order
					t.Logf("sending took %v: once more", took)
					continue
				}
				if said != "signals 1\n" || code != 42 {
					t.Errorf("the program said %q, memtrace ended with %d; want one signal, and 42", said, code)
				}
				return
			}
			t.Errorf("the signals were never sent within %v", togetherAfter)
		})
	}
}

func killEach(pids ...int) (err error) {
	for _, pid := range pids {
		err = errors.Join(err, unix.Kill(pid, unix.SIGTERM))
	}
	return err
}

// A program that blocks all signals and reads them itself gets none of memtrace's own, though each of its allocations
// through a library that was just loaded is one that memtrace would stop it for.
func TestBlockedSignalsAreNotSent(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--leaks"}, {"--leaks", "--at-exit", exitAfter}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--report", filepath.Join(t.TempDir(), "report")}, flags...)
			cmd := memtraceCommand(t, append(args, "--", testProgram("signals"), "read")...)
			out, err := cmd.Output()
			if !bytes.HasSuffix(out, []byte("ready\nsignals 0\n")) || err != nil {
				t.Errorf("the program said %q, memtrace ended with %v; want no signal", out, err)
			}
		})
	}
}

// The program has the limits of whoever called memtrace, which raises its own.
func TestProgramHasItsCallersLimits(t *testing.T) {
	t.Parallel()
	shell := exec.Command("sh", "-c", `ulimit -Sn 200; exec "$@"`, "sh")
	cmd := memtraceCommand(t, "run", "--report", filepath.Join(t.TempDir(), "report"), "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
	shell.Args = append(shell.Args, cmd.Args...)
	shell.Env = cmd.Env
	traced, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := exec.Command("sh", "-c", "ulimit -Sn 200; ulimit -Sn; ulimit -Hn").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(traced, plain) {
		t.Errorf("soft and hard limit of files: %q, want %q", traced, plain)
	}
}

// Signals that memtrace's caller has it ignore stay ignored in the program, and descriptors that are open stay open.
func TestProgramInheritsItsCallersSignalsAndDescriptors(t *testing.T) {
	t.Parallel()
	prepare := `for s in HUP INT QUIT USR2 PIPE TERM 40 64; do trap '' $s; done; exec 3</dev/zero 9</dev/full; exec "$@"`
	show := []string{"sh", "-c", `grep Sig[IB] /proc/self/status; readlink /proc/self/fd/3 /proc/self/fd/9; [ -e /proc/self/fd/4 ]; echo $?`}
	cmd := memtraceCommand(t, append([]string{"run", "--report", filepath.Join(t.TempDir(), "report"), "--"}, show...)...)
	traced, plain := exec.Command("sh", "-c", prepare, "sh"), exec.Command("sh", "-c", prepare, "sh")
	traced.Args, traced.Env = append(traced.Args, cmd.Args...), cmd.Env
	plain.Args = append(plain.Args, show...)
	got, err := traced.Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := plain.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || !bytes.Contains(want, []byte("/dev/zero\n/dev/full\n1\n")) {
		t.Errorf("under memtrace:\n%swant:\n%s", got, want)
	}
}

// A program that another has under ptrace, as strace has, is not stopped by SIGURG, which that one would hand on.
func TestSignalsAreNotSentUnderAnotherTracer(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(testProgram("signals"), "traced"))
	pid, err := strconv.Atoi(strings.TrimPrefix(p.lineWith("ready"), "ready "))
	if err != nil {
		t.Fatal(err)
	}
	tr := attach(t, pid, "--leaks", "--at-exit", exitBefore)
	p.say("go")
	if said := p.lineWith("signals"); said != "signals 0" {
		t.Errorf("the program said %q, want no signal", said)
	}
	p.end()
	if r := tr.interrupt(); !strings.Contains(fmt.Sprint(r.Warnings), "is traced by process") {
		t.Errorf("warnings: %q", r.Warnings)
	}
}
