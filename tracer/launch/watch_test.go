package launch

import (
	"bufio"
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

	"golang.org/x/sys/unix"
)

// asHolder names the program that this test binary starts and holds at its end
// for ever, in place of running tests.
const asHolder = "MEMTRACE_TEST_HOLD"

func TestMain(m *testing.M) {
	if program := os.Getenv(asHolder); program != "" {
		hold(program)
	}
	os.Exit(m.Run())
}

// seen is what a look at a program at its end finds.
type seen struct {
	magic    uint64
	threads  int
	register bool
}

// end runs the program to its end and returns how often it was looked at
// there, what was seen first, and its exit code.
func end(t *testing.T, program, how string) (int, seen, int) {
	t.Helper()
	address := symbolAddress(t, program, "magic")
	var all []seen
	proc, err := Start(Program{Path: program, Args: []string{"ends", how}, Watch: &Hooks{AtExit: func(e Ending) {
		s := seen{threads: len(e.Threads)}
		var word [8]byte
		local := unix.Iovec{Base: &word[0]}
		local.SetLen(8)
		_, err := unix.ProcessVMReadv(e.Threads[0].TID, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(address), Len: 8}}, 0)
		if err == nil {
			s.magic = uint64(word[0]) | uint64(word[7])<<56
		}
		for _, thread := range e.Threads {
			s.register = s.register || slices.Contains(thread.Words, 0x7265676973746572)
		}
		all = append(all, s)
	}}}, func(int) (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	state, err := proc.Wait()
	if err != nil {
		t.Fatal(err)
	}
	code := state.ExitCode()
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if len(all) == 0 {
		return 0, seen{}, code
	}
	return len(all), all[0], code
}

func buildEnds(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ends")
	if out, err := exec.Command("gcc", "-O1", "-no-pie", "-pthread", "-o", program, "testdata/ends.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// symbolAddress asks nm, as the program is linked to fixed addresses.
func symbolAddress(t *testing.T, program, name string) uint64 {
	t.Helper()
	out, err := exec.Command("nm", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return findSymbol(t, string(out), name)
}

func TestLooksOnceAtEachEnd(t *testing.T) {
	program := buildEnds(t)
	const magic = 0x65 | 0x6d<<56
	for _, c := range []struct {
		how     string
		threads int
		code    int
	}{
		{"return", 1, 7}, {"_exit", 2, 7}, {"thread", 2, 7}, {"last", 1, 0}, {"exec", 1, 7}, {"churn", 1, 7},
		{"abort", 1, 128 + 6}, {"segv", 1, 128 + 11}, {"term", 1, 128 + 15}, {"stop", 1, 7},
	} {
		t.Run(c.how, func(t *testing.T) {
			looks, s, code := end(t, program, c.how)
			if looks != 1 || s.magic != magic || s.threads != c.threads || code != c.code {
				t.Errorf("looked %d times, saw %+v, exit code %d; want once, %d threads, %d", looks, s, code, c.threads, c.code)
			}
			if s.register != (c.how == "_exit") {
				t.Errorf("the other thread's register was seen: %v", s.register)
			}
		})
	}
}

// hold starts a program, holds it at its end and says so.
func hold(program string) {
	hooks := &Hooks{AtExit: func(Ending) {
		fmt.Println("held")
		select {}
	}}
	_, err := Start(Program{Path: program, Args: []string{"ends", "_exit"}, Stdout: os.Stdout, Watch: hooks},
		func(int) (bool, error) { return true, nil })
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

// TestKilledTracerLetsGo: a program that is held at its end goes on when its
// tracer is killed.
func TestKilledTracerLetsGo(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asHolder+"="+buildEnds(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // the tracer and the program have it
	out := bufio.NewReader(r)
	if line, err := out.ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The end of the pipe is the end of the program.
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
}

// startWaiting starts the program, which waits for a signal with two threads.
// It is the child of a shell, whose word on its end comes from end.
func startWaiting(t *testing.T) (pid int, end func() string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `"$0" wait & echo $!; wait $!; echo ended $?`, buildEnds(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		lines.Scan()
		return lines.Text()
	}
	// The shell and the program write one line each, in any order.
	for range 2 {
		if line := next(); line != "ready" {
			pid, _ = strconv.Atoi(line)
		}
	}
	t.Cleanup(func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	if pid == 0 {
		t.Fatal("the program has not started")
	}
	return pid, next
}

// TestAttend watches a program that runs already: it is not stopped before its
// end, and then all its threads and registers are there.
func TestAttend(t *testing.T) {
	pid, end := startWaiting(t)
	endings := make(chan Ending, 2)
	w, err := Attend([]int{pid}, Hooks{AtExit: func(e Ending) { endings <- e }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := Attend([]int{pid}, Hooks{}); err == nil || !strings.Contains(err.Error(), "is traced by process") {
		t.Errorf("a second watch: %v", err)
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e := <-endings
	register := slices.ContainsFunc(e.Threads, func(t Thread) bool { return slices.Contains(t.Words, 0x7265676973746572) })
	if e.PID != pid || e.Before || len(e.Threads) != 2 || !register {
		t.Errorf("%d threads, the register was seen: %v", len(e.Threads), register)
	}
	if got := end(); got != "ended 143" {
		t.Errorf("the shell says %q", got)
	}
	if len(endings) != 0 {
		t.Error("it was looked at twice")
	}
}

// TestCloseLetsGo: after Close the program has no tracer, and runs.
func TestCloseLetsGo(t *testing.T) {
	pid, end := startWaiting(t)
	w, err := Attend([]int{pid}, Hooks{AtExit: func(Ending) { t.Error("it was looked at") }})
	if err != nil {
		t.Fatal(err)
	}
	if tracer := tracerOf(pid); tracer == 0 {
		t.Error("it is not watched")
	}
	w.Close()
	for _, tid := range threadsOf(pid) {
		if tracer := tracerOf(tid); tracer != 0 {
			t.Errorf("thread %d still has the tracer %d", tid, tracer)
		}
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := end(); got != "ended 143" {
		t.Errorf("the shell says %q", got)
	}
}

func findSymbol(t *testing.T, table, name string) uint64 {
	t.Helper()
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 3 && f[2] == name {
			address, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}
