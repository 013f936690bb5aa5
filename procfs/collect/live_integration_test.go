//go:build integration

package collect

import (
	"fmt"
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

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

func init() {
	children["namespace"] = reusePID
	children["reader"] = readAs
}

// copySelf copies the test binary, which the test itself maps, too.
func copySelf(t testing.TB) proctest.Private {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return proctest.Copy(t, self, "child_"+strconv.Itoa(os.Getpid()))
}

// startStopped starts a child with so much memory of a copy, and stops it:
// nothing of its memory changes any more.
func startStopped(t testing.TB, program proctest.Private, mib string) (pid int) {
	t.Helper()
	cmd := startAs(t, program.Command(), "big", mib, nil)
	proctest.Stop(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

// TestAgreesWithSmaps compares what is collected of stopped processes, which
// share their files with each other alone, with what awk sums up from their
// smaps: to the byte, shares within their rounding.
func TestAgreesWithSmaps(t *testing.T) {
	program := copySelf(t)
	var pids []int
	for _, mib := range []string{"1", "8", "32"} {
		pids = append(pids, startStopped(t, program, mib))
	}
	c := open(t, Options{})
	for range 2 { // with directories that were opened just now, and with those that were held
		reference := func() (list []smapsSum) {
			for _, pid := range pids {
				list = append(list, smapsByAwk(t, pid))
			}
			return list
		}
		list, pass := proctest.Settled(t, reference, func() *Pass { return collectAll(t, c, All) })
		for i, pid := range pids {
			list[i].compare(t, pass.find(pid))
		}
	}
}

// smapsSum are sums of a process's smaps in bytes, and how many were rounded down for PSS.
type smapsSum struct{ rss, uss, swap, pss, mappings uint64 }

func smapsByAwk(t *testing.T, pid int) (s smapsSum) {
	t.Helper()
	const sums = `/^Rss:/ {r+=$2} /^Private_(Clean|Dirty):/ {u+=$2} /^Swap:/ {s+=$2} /^Pss:/ {p+=$2; n++} END {print r*1024, u*1024, s*1024, p*1024, n}`
	out, err := exec.Command("awk", sums, fmt.Sprintf("/proc/%d/smaps", pid)).Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &s.rss, &s.uss, &s.swap, &s.pss, &s.mappings)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// compare compares a process's figures with the sums.
func (s smapsSum) compare(t *testing.T, p *Process) {
	t.Helper()
	uss, o := p.USS()
	pss, _ := p.PSS()
	swap, _ := p.Swap()
	if o != procfs.Known || p.RSS != s.rss || p.Memory.Rss != s.rss || uss != s.uss || swap != s.swap {
		t.Errorf("process %d: RSS %d, USS %d, swap %d, %v; %+v", p.PID, p.RSS, uss, swap, o, s)
	}
	if pss < s.pss || pss > s.pss+s.mappings<<10 || pss < uss+64<<10 {
		t.Errorf("process %d: PSS %d, USS %d; %+v", p.PID, pss, uss, s)
	}
}

// TestPIDReuse forces a PID to be given twice, in a PID namespace of its own.
func TestPIDReuse(t *testing.T) {
	cmd := startChildAs(t, "namespace", t.TempDir(), &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS})
	_ = cmd // it is ready once it has found nothing wrong
}

// reusePID is the first process of a PID namespace. It panics where a figure
// of the second process is one of the first.
func reusePID(dir string) {
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("proc", dir, "proc", 0, ""))
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	c, err := Open(Options{Root: dir, Budget: DefaultBudget()})
	must(err)
	first := startWithPID(100, "8")
	a := *onlyProcess(c, 100)
	held, err := c.dir.Process(100)
	must(err)
	must(first.Process.Kill())
	_ = first.Wait()
	nextTick()
	second := startWithPID(100, "32")
	b := onlyProcess(c, 100)
	if a.Identity == b.Identity {
		panic(fmt.Sprintf("both are %+v", a.Identity))
	}
	if pss, o := b.PSS(); o != procfs.Known || pss < 32<<20 || b.Memory.Rss == a.Memory.Rss {
		panic(fmt.Sprintf("second process: PSS %d, %v", pss, o))
	}
	if _, err := held.SmapsRollup(); procfs.OutcomeOf(err) != procfs.Gone {
		panic(fmt.Sprintf("the first process's directory gave: %v", err))
	}
	must(held.Close())
	must(second.Process.Kill())
	_ = second.Wait()
	must(c.Close())
}

// nextTick waits until a process that starts now has another start time, which
// the kernel tells in clock ticks.
func nextTick() {
	tick := func() int64 {
		var ts unix.Timespec
		must(unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts))
		return ts.Nano() / int64(procfs.ClockTick)
	}
	for now := tick(); tick() <= now+1; {
		runtime.Gosched()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// startWithPID starts a child that the kernel gives this PID.
func startWithPID(pid int, mib string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"=big", argumentVar+"="+mib)
	_, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	// Go's threads take PIDs as well, so the last one is set as late as can be.
	for range 100 {
		must(os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o644))
		must(cmd.Start())
		if cmd.Process.Pid == pid {
			_, err = fmt.Fscanln(out, new(string))
			must(err)
			return cmd
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		again := exec.Command("/proc/self/exe")
		again.Env = cmd.Env
		cmd = again
		_, err = cmd.StdinPipe()
		must(err)
		out, err = cmd.StdoutPipe()
		must(err)
	}
	panic("the PID was not to be had")
}

func onlyProcess(c *Collector, pid int) *Process {
	pass, err := c.Collect(All)
	must(err)
	p := pass.find(pid)
	if p == nil {
		panic(fmt.Sprintf("process %d is not listed", pid))
	}
	return p
}

// TestLeastPrivilege reads a process of root's as nobody, with no capability
// and with one at a time, and checks what each of them opens.
func TestLeastPrivilege(t *testing.T) {
	target := startChild(t)
	proctest.Stop(t, target.Process.Pid)
	ptrace := kernelAtLeast(t, 6, 15)
	for _, c := range []struct {
		name   string
		caps   []uintptr
		memory bool
		frames bool
	}{
		{"none", nil, false, false},
		{"CAP_PERFMON", []uintptr{unix.CAP_PERFMON}, ptrace, false},
		{"CAP_SYS_PTRACE", []uintptr{unix.CAP_SYS_PTRACE}, true, false},
		{"CAP_DAC_READ_SEARCH", []uintptr{unix.CAP_DAC_READ_SEARCH}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := readByNobody(t, target.Process.Pid, c.caps)
			want := map[string]string{"user": "known", "cmdline": "known", "cgroup": "known", "oom": "known", "shared": "known",
				"memory": "no permission", "swap": "known", "kpagecount": "no permission"}
			if c.memory {
				want["memory"] = "known"
			}
			if c.frames {
				want["kpagecount"] = "known"
			}
			for name, w := range want {
				if got[name] != w {
					t.Errorf("%s: %s, not %s", name, got[name], w)
				}
			}
		})
	}
}

// readByNobody runs the child "reader", whose answer it returns.
func readByNobody(t *testing.T, pid int, caps []uintptr) map[string]string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "reader")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.WriteProgram(program, self); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), childVar+"=reader", argumentVar+"="+strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
	cmd.Stdin = strings.NewReader("")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	answer := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, outcome, _ := strings.Cut(strings.TrimSpace(line), "=")
		answer[name] = outcome
	}
	return answer
}

// readAs prints what became of each field of a process.
func readAs(pid string) {
	n, err := strconv.Atoi(pid)
	must(err)
	c, err := Open(Options{})
	must(err)
	pass, err := c.Collect(All)
	must(err)
	p := pass.find(n)
	for i, name := range []string{"user", "cmdline", "cgroup", "oom", "shared", "memory"} {
		fmt.Printf("%s=%v\n", name, p.Outcome(1<<i))
	}
	_, o := p.Swap()
	fmt.Printf("swap=%v\n", o)
	fs, err := procfs.New(procfs.DefaultRoot)
	must(err)
	f, err := fs.OpenFrames(procfs.FrameCounts)
	fmt.Printf("kpagecount=%v\n", procfs.OutcomeOf(err))
	if err == nil {
		must(f.Close())
	}
	must(c.Close())
}

func kernelAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		t.Fatal(err)
	}
	return slices.Compare([]int{a, b}, []int{major, minor}) >= 0
}
