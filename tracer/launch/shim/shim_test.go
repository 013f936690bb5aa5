package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// becomes has a shim of this test binary become a program, and returns what that wrote.
func becomes(t *testing.T, ignored uint64, path string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	ours, its := socketPair(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.ExtraFiles = []*os.File{its}
	cmd.Args = Args(3, ignored, path, argv)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = its.Close()
	var one [1]byte
	if _, err := ours.Read(one[:]); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); err != nil || !strings.HasSuffix(exe, "shim.test") {
		t.Errorf("at the gate it runs %s, %v", exe, err)
	}
	if _, err := ours.Write(one[:]); err != nil {
		t.Errorf("let it through: %v", err)
	}
	_ = cmd.Wait()
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

func socketPair(t *testing.T) (ours, its *os.File) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, its = os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "its")
	t.Cleanup(func() { _ = ours.Close() })
	return ours, its
}

// The program has its arguments as they are, its own name and the gate apart.
func TestArguments(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	given := []string{"", "a b\n", "", long, "é\xff", ""}
	out, said, code := becomes(t, 0, "/bin/sh", append([]string{"the name", "-c", `printf '%s|' "$0" "$@"; ls -l /proc/self/fd | grep -c socket: >&2`, "zero"}, given...)...)
	if want := "zero|" + strings.Join(given, "|") + "|"; out != want || said != "0\n" {
		t.Errorf("%d: %.200q, %.200q, want %.200q", code, out, said, want)
	}
}

// It ignores what it is to ignore, and what its caller does.
func TestIgnoredSignals(t *testing.T) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, of, _ := strings.Cut(string(status), "SigIgn:\t")
	caller, err := strconv.ParseUint(of[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, ignored := range []uint64{0, 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGINT-1) | 1<<63} {
		out, said, _ := becomes(t, ignored, "/bin/grep", "grep", "SigIgn", "/proc/self/status")
		if want := fmt.Sprintf("SigIgn:\t%016x\n", ignored|caller); out != want {
			t.Errorf("%s, want %s; %s", out, want, said)
		}
	}
}

func TestFailures(t *testing.T) {
	for path, want := range map[string]int{"/nothing/there": NotFound, "/proc/self/status": NotExecutable, "/tmp": NotExecutable} {
		_, said, code := becomes(t, 0, path, "name")
		if code != want || !strings.HasPrefix(said, "memtrace: execute "+path+": ") {
			t.Errorf("%s: %d, %s", path, code, said)
		}
	}
}

// Without memtrace at the other side, nothing is executed.
func TestMemtraceIsGone(t *testing.T) {
	ours, its := socketPair(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.ExtraFiles = []*os.File{its}
	cmd.Args = Args(3, 0, "/bin/echo", []string{"echo", "alive"})
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = its.Close()
	_ = ours.Close()
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != NotExecutable || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

// Nobody becomes anything by another name, nor by too few arguments.
func TestOthersAreThemselves(t *testing.T) {
	for _, args := range [][]string{{Name + "2", "3", "0", "/bin/echo", "echo"}, {Name, "3", "0", "/bin/echo"}, {"memtrace"}, {""}} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = args
		cmd.Env = append(os.Environ(), endsAtOnce+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}

// endsAtOnce has this test binary run no tests.
const endsAtOnce = "MEMTRACE_TEST_ENDS"

func TestMain(m *testing.M) {
	if os.Getenv(endsAtOnce) != "" {
		os.Exit(0)
	}
	os.Exit(m.Run())
}
