package reach

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
)

// TestStopLosesNoSignal stops a program again and again that signals come to
// all the time: a thread may stop with one on its way, which it must get.
func TestStopLosesNoSignal(t *testing.T) {
	const stops, sent = 4000, 150_000
	program := filepath.Join(t.TempDir(), "signal_count")
	compile(t, "gcc", "-O2", "-o", program, programs+"/signal_count.c")
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	var signal int
	if _, err := fmt.Fscanf(lines, "ready %d\n", &signal); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	done := make(chan error, 1)
	go func() {
		for i := range sent {
			for i%1000 == 0 && queued(pid) > 10_000 { // beyond a limit they are lost
			}
			if err := unix.Kill(pid, unix.Signal(signal)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	stopAgainAndAgain(t, pid, stops)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	got := 0
	if _, err := fmt.Fscanf(lines, "got %d\n", &got); err != nil || got != sent {
		t.Errorf("the program got %d of %d signals (%v)", got, sent, err)
	}
}

func stopAgainAndAgain(t *testing.T, pid, n int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	withSignal := 0
	for range n {
		thread, err := Stop(pid)
		if err != nil {
			t.Fatal(err)
		}
		if thread.signal != 0 {
			withSignal++
		}
		Release(thread)
	}
	t.Logf("%d of %d stops were with a signal on its way", withSignal, n)
}

// queued is how many signals are on their way to the processes of a user.
func queued(pid int) (n int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "\nSigQ:\t")
	_, _ = fmt.Sscanf(after, "%d/", &n) // 0 where there is none
	return n
}

// TestStopHasAnEnd: a thread that can't stop is an error, and goes on
// afterwards as if it had not been tried.
func TestStopHasAnEnd(t *testing.T) {
	program := filepath.Join(t.TempDir(), "vfork_wait")
	compile(t, "gcc", "-O2", "-o", program, programs+"/vfork_wait.c")
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "waiting\n" {
		t.Fatalf("the program said %q (%v)", line, err)
	}
	ownthread.Do(func() { _, err = Stop(cmd.Process.Pid) }) // the seizure ends with the thread
	if !errors.Is(err, errNoStop) {
		t.Errorf("stopping it: %v, want %v", err, errNoStop)
	}
	_ = in.Close()
	if line, err := lines.ReadString('\n'); line != "on\n" {
		t.Errorf("the program said %q (%v), want it to go on", line, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestStopEndsNoWait: calls that the kernel does not restart after a stop, such as
// epoll_wait, wait on as if it had not been.
func TestStopEndsNoWait(t *testing.T) {
	program := filepath.Join(t.TempDir(), "odd")
	compile(t, "gcc", "-O2", "-pthread", "-o", program, programs+"/odd.c")
	cmd := exec.Command(program, "waits", "wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program said %q (%v)", line, err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", cmd.Process.Pid))
	if err != nil || len(tasks) < 7 {
		t.Fatalf("its threads are %q (%v), want itself and six that wait", tasks, err)
	}
	for range 3 {
		for _, task := range tasks {
			var tid int
			_, _ = fmt.Sscan(filepath.Base(task), &tid)
			ownthread.Do(func() {
				var stopped Thread
				if stopped, err = Stop(tid); err == nil {
					Release(stopped)
				}
			})
			if err != nil && !errors.Is(err, unix.ESRCH) { // the one that sleeps may have ended
				t.Fatal(err)
			}
		}
	}
	_, _ = in.Write([]byte("go\n"))
	if line, err := lines.ReadString('\n'); line != "woken 5, early 0 0 0 0 0 0\n" {
		t.Errorf("the program said %q (%v)", line, err)
	}
}
