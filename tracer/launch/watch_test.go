package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // Shim must exec from the main thread

func TestMain(m *testing.M) {
	Shim()
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
	program := filepath.Join(t.TempDir(), "ends")
	if out, err := exec.Command("gcc", "-O1", "-no-pie", "-pthread", "-o", program, "testdata/ends.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
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
