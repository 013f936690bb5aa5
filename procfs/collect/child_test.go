package collect

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Children of the tests are the test binary itself; COLLECT_TEST_CHILD says
// which and COLLECT_TEST_ARGUMENT with what.
const (
	childVar    = "COLLECT_TEST_CHILD"
	argumentVar = "COLLECT_TEST_ARGUMENT"
)

// children by name; main_integration_test.go adds some.
var children = map[string]func(argument string){
	"idle": func(string) {},
	"big":  func(mib string) { keepMiB(mib) },
}

// kept keeps what a child allocated.
var kept []byte

func keepMiB(mib string) {
	n, err := strconv.Atoi(mib)
	if err != nil {
		panic(err)
	}
	kept, err = unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVar)]; ok {
		child(os.Getenv(argumentVar))
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		return
	}
	code := m.Run()
	if leaked := openDescriptors(); len(leaked) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "descriptors left open:", leaked)
		code = 1
	}
	os.Exit(code)
}

// openDescriptors lists those of processes that are open.
func openDescriptors() (open []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(to, "/proc/") && !strings.HasSuffix(to, "/fd") {
			open = append(open, to)
		}
	}
	return open
}

func startChild(t testing.TB) *exec.Cmd { return startChildAs(t, "idle", "", nil) }

// startChildAs starts a child and returns it once it is up.
func startChildAs(t testing.TB, kind, argument string, attributes *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVar+"="+kind, argumentVar+"="+argument)
	cmd.SysProcAttr = attributes
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
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
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("child said %q: %v", line, err)
	}
	return cmd
}

// stopChild stops a child, so that its memory stays as it is.
func stopChild(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("child did not stop: %v, %v", ws, err)
	}
}
