package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

func open(t testing.TB, o Options) *Collector {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func collectAll(t testing.TB, c *Collector, want Fields) *Pass {
	t.Helper()
	pass, err := c.Collect(want)
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

func (p *Pass) find(pid int) *Process {
	i, ok := slices.BinarySearchFunc(p.Processes, pid, func(p *Process, pid int) int { return p.PID - pid })
	if !ok {
		return nil
	}
	return p.Processes[i]
}

func TestFixture(t *testing.T) {
	c := open(t, Options{Root: filepath.Join("..", "..", "testdata", "proc", "6.18")})
	pass := collectAll(t, c, Cmdline|Shared|Memory)
	if len(pass.Processes) != 3 {
		t.Fatalf("%d processes", len(pass.Processes))
	}
	p := pass.find(4001)
	if p.Comm != "sleep" || p.Cmdline != "sleep 600" || p.StartTime != 300751 || p.RSS != 458*4096 || p.VSize != 2990080 {
		t.Errorf("%+v", p)
	}
	if pss, o := p.PSS(); o != procfs.Known || pss != 291<<10 {
		t.Errorf("PSS %d, %v", pss, o)
	}
	if o := p.Outcome(User); o != procfs.NotRead {
		t.Errorf("nobody asked for the user: %v", o)
	}
	for _, pid := range []int{2, 4002} {
		if uss, o := pass.find(pid).USS(); o != procfs.NoMemory || uss != 0 {
			t.Errorf("process %d: USS %d, %v", pid, uss, o)
		}
	}
}

func TestEndedProcessIsLeftOut(t *testing.T) {
	cmd := startChild(t)
	c := open(t, Options{})
	if collectAll(t, c, 0).find(cmd.Process.Pid) == nil {
		t.Fatal("child is not listed")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if p := collectAll(t, c, All).find(cmd.Process.Pid); p != nil {
		t.Errorf("%+v", p)
	}
}

// TestStoppedChild compares what is read of a stopped process with the kernel's files.
func TestStoppedChild(t *testing.T) {
	cmd := startChild(t)
	proctest.Stop(t, cmd.Process.Pid)
	c := open(t, Options{})
	p := collectAll(t, c, All).find(cmd.Process.Pid)
	nice, err := ownNice()
	if err != nil {
		t.Fatal(err)
	}
	if p == nil || p.PPID != os.Getpid() || !strings.HasPrefix(filepath.Base(os.Args[0]), p.Comm) || p.UID != uint32(os.Geteuid()) || p.Nice != nice || p.Priority != 20+nice {
		t.Fatalf("%+v", p)
	}
	for f := User; f <= Memory; f <<= 1 {
		if o := p.Outcome(f); o != procfs.Known {
			t.Errorf("field %#x: %v", f, o)
		}
	}
	// With a budget SHR comes from statm, whose counters lag behind what the walk sees, before 6.2 by a thousand pages a thread.
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseUint(strings.Fields(string(statm))[2], 10, 64)
	if s := collectAll(t, open(t, Options{Budget: DefaultBudget()}), All).find(p.PID).Shared; s == 0 || s != pages*pageSize {
		t.Errorf("SHR %d, statm has %d pages", s, pages)
	}
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
	if err != nil || !strings.Contains(string(cgroup), ":"+p.Cgroup+"\n") {
		t.Errorf("cgroup %q is not in %q: %v", p.Cgroup, cgroup, err)
	}
}

func TestUsers(t *testing.T) {
	var u Users
	for range 2 {
		if name := u.Name(0); name != "root" {
			t.Errorf("user 0 is %q", name)
		}
		if name := u.Name(1<<32 - 2); name != "4294967294" {
			t.Errorf("user without a name: %q", name)
		}
	}
}

// TestSteadyPassAllocatesLittle: a pass allocates a little by itself, and
// nothing for each process.
func TestSteadyPassAllocatesLittle(t *testing.T) {
	tr := newTree(t)
	for pid := 10; pid < 110; pid++ {
		tr.put(pid, 1, 100, 0)
	}
	for name, b := range map[string]Budget{"all": {}, "budget": DefaultBudget()} {
		c := open(t, Options{Root: tr.root, Workers: 1, Budget: b})
		collectAll(t, c, Memory|Shared)
		if n := testing.AllocsPerRun(10, func() { collectAll(t, c, Memory|Shared) }); n > 10 {
			t.Errorf("%s: %v allocations in a pass over 100 processes", name, n)
		}
	}
}

// TestFewDescriptors: where directories cannot be held, the start time tells a
// process from its successor under the same PID.
func TestFewDescriptors(t *testing.T) {
	tr := newTree(t)
	tr.put(10, 1, 100, 0)
	tr.put(20, 1, 200, 0)
	c := tr.open(Budget{MaxAge: time.Minute})
	c.maxHeld = 0
	first := *tr.pass(c, 0).find(10)
	if n := c.held.Load(); n != 0 {
		t.Errorf("%d directories are held", n)
	}
	wantWalks(t, tr.pass(c, time.Second), "unchanged", 0, 2, 0)
	tr.remove(10)
	tr.put(10, 1, 100, 0)
	tr.replace(10, "stat", " 1 0 100 8192000", " 1 0 777 8192000") // began later, with the same counters
	pass := tr.pass(c, time.Second)
	if p := pass.find(10); p.Identity == first.Identity || p.StartTime != 777 || !p.MemoryAt.Equal(pass.At) {
		t.Errorf("first %+v, second %+v", first.Identity, *p)
	}
}

// ownNice is the nice value that this process gives its children.
func ownNice() (int, error) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - raw, err // the system call returns 20 less the value
}
