package collect

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/proctest"
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
	os.Exit(proctest.Run(m))
}

func startChild(t testing.TB) *exec.Cmd { return startChildAs(t, "idle", "", nil) }

// startChildAs starts a child and returns it once it is up.
func startChildAs(t testing.TB, kind, argument string, attributes *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startAs(t, exec.Command(self), kind, argument, attributes)
}

// startAs starts a command of the test binary as a child.
func startAs(t testing.TB, cmd *exec.Cmd, kind, argument string, attributes *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	cmd.Env = append(cmd.Environ(), childVar+"="+kind, argumentVar+"="+argument)
	cmd.SysProcAttr = attributes
	cmd.Stderr = os.Stderr
	proctest.Start(t, cmd)
	return cmd
}
