//go:build integration

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cyclesOf says how often memtrace is killed in each phase: once, or as make harm-cycles has it.
func cyclesOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HARM_CYCLES")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("HARM_CYCLES=%q is no number of cycles", text)
	}
	return n
}

// phases of a trace, each with what brings memtrace there before it is killed: at any moment of it, by chance.
var phases = map[string]func(t *testing.T, pid int) *exec.Cmd{
	"attach": func(t *testing.T, pid int) *exec.Cmd {
		cmd := memtraceCommand(t, "-p", strconv.Itoa(pid), "--format", "json")
		startIt(t, cmd)
		pauseFor(time.Second)
		return cmd
	},
	"hold at birth": func(t *testing.T, pid int) *exec.Cmd {
		tr := attach(t, pid)
		if codeDiffers(t, pid) == "" {
			t.Error("no probe is seen in the code of a program that has some")
		}
		pauseFor(50 * time.Millisecond)
		return tr.cmd
	},
	"check at exit": func(t *testing.T, pid int) *exec.Cmd {
		tr := attach(t, pid, "--leaks")
		pauseFor(50 * time.Millisecond)
		return tr.cmd
	},
	"stop": func(t *testing.T, pid int) *exec.Cmd {
		cmd := memtraceCommand(t, "leaks", "-p", strconv.Itoa(pid), "--stop")
		startIt(t, cmd)
		for stateOf(t, strconv.Itoa(pid)) != "t" && stateOf(t, strconv.Itoa(cmd.Process.Pid)) != "Z" {
			time.Sleep(100 * time.Microsecond)
		}
		return cmd
	},
	"detach": func(t *testing.T, pid int) *exec.Cmd {
		tr := attach(t, pid)
		if err := tr.cmd.Process.Signal(unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		pauseFor(200 * time.Millisecond)
		return tr.cmd
	},
}

func startIt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// pauseFor waits for some part of the time that a phase takes.
func pauseFor(most time.Duration) { time.Sleep(rand.N(most)) }

// TestKilledInEachPhase kills memtrace in each phase, while the program allocates and has one child after the other: each
// time the program runs on, has no tracer, and its code is that of the file.
func TestKilledInEachPhase(t *testing.T) {
	t.Parallel()
	cycles := cyclesOf(t)
	for name, begin := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			busy := exec.Command(testProgram("odd"), "busy")
			startIt(t, busy)
			pid := busy.Process.Pid
			eventually(t, "the program has children", func() bool { return childFaults(t, pid) > 0 })
			for range cycles {
				tracer := begin(t, pid)
				_ = tracer.Process.Kill() // it may have ended
				_ = tracer.Wait()
				unharmed(t, pid)
			}
			t.Logf("killed %d times", cycles)
		})
	}
}

// unharmed waits until a process is as it was before it was traced. The kernel takes links to programs away a little later.
func unharmed(t *testing.T, pid int) {
	t.Helper()
	if traced := statusLines(t, pid, "TracerPid:\t0"); traced != "" {
		t.Fatalf("after memtrace was killed: %s", traced)
	}
	before := childFaults(t, pid)
	eventually(t, "the program has more children", func() bool { return childFaults(t, pid) > before })
	eventually(t, "the program's code is that of the files", func() bool { return codeDiffers(t, pid) == "" })
}

// statusLines returns the status of a thread that lacks a line, "" if all have it.
func statusLines(t *testing.T, pid int, line string) string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) < 2 {
		t.Fatalf("the threads of process %d: %v, %v", pid, files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte(line+"\n")) {
			return fmt.Sprintf("%s: %v %s", file, err, text)
		}
	}
	return ""
}

// childFaults are the page faults of the children that a process has waited for: they grow with each.
func childFaults(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	n, err := strconv.Atoi(fields[8]) // cminflt; proc_pid_stat(5)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// codeDiffers says where a process's code is not that of its files.
func codeDiffers(t *testing.T, pid int) string {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var start, end, offset int64
		var perms, device, path string
		var inode int
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &start, &end, &perms, &offset, &device, &inode, &path); n < 7 || perms[2] != 'x' || path[0] != '/' {
			continue
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := file[offset:min(int64(len(file)), offset+end-start)]
		code := make([]byte, len(want))
		if _, err := mem.ReadAt(code, start); err != nil || !bytes.Equal(code, want) {
			return fmt.Sprintf("%s (%v)", line, err)
		}
	}
	return ""
}
