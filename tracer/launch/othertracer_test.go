package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/ptraced"
)

// outputUnderWatch is what a program prints that runs under watch with its children.
func outputUnderWatch(t *testing.T, hooks Hooks, program string, args ...string) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	hooks.NewChild, hooks.Started = func(int) {}, func(int) bool { return true }
	proc, err := Start(Program{Path: program, Args: append([]string{program}, args...), Stdout: out, Watch: &hooks},
		func(int) (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proc.Wait(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCallsOfPtraceAreSeen: a program that traces itself, a child or its parent does so as it does alone, with no
// probe at ptrace to tell of it. Where its calls are not watched either, it fails.
func TestCallsOfPtraceAreSeen(t *testing.T) {
	program := filepath.Join(t.TempDir(), "odd")
	gcc := exec.Command("gcc", "-O1", "-pthread", "-o", program, "../../testdata/programs/odd.c")
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, mode := range []string{"traceme", "debugger", "debugged"} {
		t.Run(mode, func(t *testing.T) {
			alone, _ := exec.Command(program, mode).Output() // debugged ends with 3
			if len(alone) == 0 {
				t.Fatal("alone it says nothing")
			}
			watched := outputUnderWatch(t, Hooks{MayPtrace: func(int) bool { return true }}, program, mode)
			if watched != string(alone) {
				t.Errorf("watched it says %q, alone %q", watched, alone)
			}
			if unwatched := outputUnderWatch(t, Hooks{}, program, mode); unwatched == string(alone) {
				t.Errorf("with its calls unwatched it says the same: %q", unwatched)
			}
		})
	}
}

// TestCrashHandlersAreSeen: where a program is about to die of a fault, and names who may take it under ptrace, it is let
// go first; one whose handlers return or jump out is not. Where nothing gives way, the dump fails.
func TestCrashHandlersAreSeen(t *testing.T) {
	program := filepath.Join(t.TempDir(), "odd")
	gcc := exec.Command("gcc", "-O1", "-pthread", "-o", program, "../../testdata/programs/odd.c")
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for mode, left := range map[string]int{"handed": 1, "dumped": 1, "handles": 0} {
		t.Run(mode, func(t *testing.T) {
			alone, _ := exec.Command(program, mode).Output() // with a dump it ends with 3
			if len(alone) == 0 {
				t.Fatal("alone it says nothing")
			}
			var let atomic.Int32
			watched := outputUnderWatch(t, Hooks{
				Tracing:      func(int) (int, bool) { return 0, false },
				BeforeDetach: func(int) { let.Add(1) },
			}, program, mode)
			if watched != string(alone) || int(let.Load()) != left {
				t.Errorf("watched it says %q, alone %q; it was let go %d times, want %d", watched, alone, let.Load(), left)
			}
			if unwatched := outputUnderWatch(t, Hooks{}, program, mode); (unwatched == string(alone)) != (left == 0) {
				t.Errorf("with its handlers unwatched it says %q", unwatched)
			}
		})
	}
}

// TestOnlyTheStarvedAreWaitedFor: a thread that was asked to stop is waited for as long as it lacks nothing but a
// processor, and one that sleeps no longer than gatherTime.
func TestOnlyTheStarvedAreWaitedFor(t *testing.T) {
	asleep := exec.Command("sleep", "infinity")
	busy := exec.Command("sh", "-c", "echo; while :; do :; done")
	said, err := busy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{asleep, busy} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}()
	}
	if _, err := said.Read(make([]byte, 1)); err != nil { // now it loops
		t.Fatal(err)
	}
	for ptraced.State(asleep.Process.Pid) != 'S' { // it still loads
		runtime.Gosched()
	}
	for _, c := range []struct {
		what   string
		cmd    *exec.Cmd
		waited time.Duration
		want   bool
	}{
		{"one that sleeps", asleep, 0, true},
		{"one that sleeps", asleep, gatherTime, false},
		{"one that would run", busy, gatherTime, true},
		{"one that would run", busy, starvedTime, false},
	} {
		pid := c.cmd.Process.Pid
		p := &program{pid: pid, since: time.Now().Add(-c.waited)}
		if got := p.waitsFor([]int{pid}); got != c.want {
			t.Errorf("%s is waited for after %v: %v", c.what, c.waited, got)
		}
	}
	if p := (&program{since: time.Now()}); p.waitsFor(nil) {
		t.Error("nobody is waited for")
	}
}
