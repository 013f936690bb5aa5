package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// sleeper starts a process that does nothing, and stops it, so that its memory
// stays as it is; nobody else maps its files.
func sleeper(t *testing.T) int {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	cmd := proctest.Copy(t, cat, "cat").Command()
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.WriteString(in, "x\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it runs, and has loaded what it needs
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") T ") {
			return cmd.Process.Pid
		}
	}
}

// awk sums smaps by another program: rss, uss, swap and pss in bytes.
func awk(t *testing.T, pid int) (sums [4]uint64) {
	t.Helper()
	const script = `/^Rss:/ {r+=$2} /^Private_(Clean|Dirty):/ {u+=$2} /^Swap:/ {s+=$2} /^Pss:/ {p+=$2} END {print r*1024, u*1024, s*1024, p*1024}`
	out, err := exec.Command("awk", script, "/proc/"+strconv.Itoa(pid)+"/smaps").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range strings.Fields(string(out)) {
		if sums[i], err = strconv.ParseUint(word, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return sums
}

// TestTakeAgainstAwk: the process's figures are those that awk finds in smaps,
// and its components add up to them.
func TestTakeAgainstAwk(t *testing.T) {
	pid := sleeper(t)
	want, s := proctest.Settled(t, func() [4]uint64 { return awk(t, pid) }, func() *Snapshot {
		s, err := Take(context.Background(), Options{PIDs: []int{pid}, Memtrace: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	checkDescription(t, s)
	if differs := difference(s, want); differs != "" {
		t.Error(differs)
	}
}

// difference says how a snapshot's figures differ from rss, uss, swap and pss.
func difference(s *Snapshot, want [4]uint64) string {
	p := &s.Processes[0]
	u := &p.Usage
	if u.RSS != want[0] || u.USS != want[1] || u.Swap != want[2] || u.PSS < want[3] || u.PSS > u.RSS {
		return fmt.Sprintf("%+v; awk says rss, uss, swap, pss %v", p, want)
	}
	var sum Use
	for _, use := range p.Uses {
		sum.RSS, sum.USS, sum.PSS, sum.Swap = sum.RSS+use.RSS, sum.USS+use.USS, sum.PSS+use.PSS, sum.Swap+use.Swap
	}
	if sum.RSS != want[0] || sum.USS != want[1] || sum.Swap != want[2] || sum.PSS < want[3] || sum.PSS > u.PSS {
		return fmt.Sprintf("components add up to %+v, awk says %v", sum, want)
	}
	return ""
}

// checkDescription checks what does not depend on other processes.
func checkDescription(t *testing.T, s *Snapshot) {
	t.Helper()
	if len(s.Processes) != 1 {
		t.Fatalf("%+v", s.Processes)
	}
	p := &s.Processes[0]
	if p.Access != Known {
		t.Errorf("%+v", p)
	}
	kinds := make(map[procfs.Kind]bool)
	for _, use := range p.Uses {
		kinds[s.Components[use.Component].Kind] = true
	}
	for _, kind := range []procfs.Kind{procfs.KindHeap, procfs.KindStack, procfs.KindFile, procfs.KindVDSO} {
		if !kinds[kind] {
			t.Errorf("no %v among %+v", kind, s.Components)
		}
	}
	if p.Comm != "cat" || !slices.Equal(p.Cmdline, []string{"cat"}) || p.State != 'T' || p.UID != uint32(os.Getuid()) || p.PPID != os.Getpid() {
		t.Errorf("%+v", p)
	}
	if s.Machine.BootID == "" || s.Machine.PageSize != uint64(os.Getpagesize()) || len(s.Machine.After) == 0 || s.Machine.Memtrace != "test" {
		t.Errorf("%+v", s.Machine)
	}
}

// TestTakeAll takes the whole machine: each process adds up, and this one is in it.
func TestTakeAll(t *testing.T) {
	s, err := Take(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := false
	for i := range s.Processes {
		p := &s.Processes[i]
		own = own || p.PID == os.Getpid()
		var rss, uss uint64
		for _, u := range p.Uses {
			rss, uss = rss+u.RSS, uss+u.USS
		}
		if rss != p.Usage.RSS || uss != p.Usage.USS {
			t.Errorf("process %d: %+v; its components add up to %d, %d", p.PID, p.Usage, rss, uss)
		}
		if p.Access != Known && (p.Why == "" || p.Usage.RSS != 0) {
			t.Errorf("process %d was not read, and: %+v", p.PID, p)
		}
	}
	if !own {
		t.Error("the test itself is not in the snapshot")
	}
}

func TestTakeIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(io.ErrClosedPipe)
	if s, err := Take(ctx, Options{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTakeOutOfTime: what isn't reached is said to be out of time, never to be 0.
func TestTakeOutOfTime(t *testing.T) {
	pid := sleeper(t)
	s, err := Take(context.Background(), Options{PIDs: []int{pid}, TimeLimit: 1})
	if err != nil || len(s.Processes) != 1 {
		t.Fatal(s, err)
	}
	if p := s.Processes[0]; p.Access != OutOfTime || p.Resident == 0 || !strings.Contains(p.Why, "time limit") {
		t.Errorf("%+v", p)
	}
	// A budget so small that the walk cannot be over in time is not begun.
	s, err = Take(context.Background(), Options{PIDs: []int{pid}, TimeLimit: time.Second, StallBudget: time.Nanosecond})
	if err != nil || len(s.Processes) != 1 {
		t.Fatal(s, err)
	}
	if p := s.Processes[0]; p.Access != OverBudget || p.Resident == 0 || p.Predicted == 0 || p.Hold != 0 {
		t.Errorf("%+v", p)
	}
}

// TestManyMappingsArePredicted: a process with thousands of mappings and next
// to no memory takes a walk of its own length.
func TestManyMappingsArePredicted(t *testing.T) {
	const n = 5000
	mem, err := unix.Mmap(-1, 0, n*os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	for at := 0; at < len(mem); at += 2 * os.Getpagesize() {
		if err := unix.Mprotect(mem[at:at+os.Getpagesize()], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{PIDs: []int{os.Getpid()}, TimeLimit: time.Second, StallBudget: 5 * time.Millisecond}
	s, err := Take(context.Background(), o)
	if err != nil || len(s.Processes) != 1 {
		t.Fatal(s, err)
	}
	if p := s.Processes[0]; p.Access != OverBudget || p.Predicted < n*perMapping || p.Predicted > 10*n*perMapping {
		t.Errorf("%v, predicted %v", p.Access, p.Predicted)
	}
}

// TestTakeOfNobody: a PID that is free is told, and no process.
func TestTakeOfNobody(t *testing.T) {
	s, err := Take(context.Background(), Options{PIDs: []int{1 << 30}})
	if err != nil || len(s.Processes) != 0 || len(s.Warnings) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Take(context.Background(), Options{Proc: "/nonexistent"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no proc: %v", err)
	}
}

// TestPace: a walk in steps is held back so that it keeps to its budget.
func TestPace(t *testing.T) {
	const budget = 2 * time.Millisecond
	if d := spread(budget, budget); d != 0 {
		t.Errorf("a walk within the budget waits for %v", d)
	}
	if d := spread(5*budget, budget); d != 4*time.Second {
		t.Errorf("a walk of five budgets is spread over %v", d)
	}
	if d := spread(time.Hour, 0); d != 0 {
		t.Errorf("without budget: %v", d)
	}
	var waited time.Duration
	before := time.Now()
	p := startPace(budget, func(d time.Duration) error { waited += d; return nil })
	defer p.end()
	p.held = 3 * budget
	goesOn := p.step() // which adds what this thread has used since, on a slow machine a budget and more
	most := spread(p.held, budget)
	if least := most - time.Since(before); !goesOn || p.held < 3*budget || waited > most || waited < least {
		t.Errorf("after %v of %v it waits for %v, want %v to %v", p.held, budget, waited, least, most)
	}
	p.rest = func(time.Duration) error { return errTimeLimit }
	if p.step() || p.stopped != errTimeLimit {
		t.Error("it goes on after the time limit")
	}
}

// TestManyComponents: beyond its bound the table has one component for all others.
func TestManyComponents(t *testing.T) {
	c := newComponents()
	c.max = 2
	for i, want := range []int{0, 1, 2, 0, 1, 2} {
		v := &procfs.VMA{Kind: procfs.KindFile, Inode: uint64(i % 3), Path: []byte("/x")}
		if got := c.index(v, new(int)); got != want {
			t.Errorf("component %d is at %d, want %d", i, got, want)
		}
	}
	if !c.full || len(c.list) != 3 || c.list[2] != otherComponents {
		t.Errorf("it is not full: %+v", c.list)
	}
}

// TestLongNames: a process with the longest of paths leaves room for others'.
func TestLongNames(t *testing.T) {
	c := newComponents()
	long, brought := bytes.Repeat([]byte("d"), 4096), 0
	for i := range 65_530 {
		c.index(&procfs.VMA{Kind: procfs.KindFile, Inode: uint64(i), Path: long}, &brought)
	}
	if kept := maxNamesOfOne / len(long); len(c.list) != kept+1 || c.list[kept] != otherComponents || !c.full {
		t.Fatalf("%d components of one process, want %d", len(c.list), kept+1)
	}
	another := c.index(&procfs.VMA{Kind: procfs.KindFile, Inode: 1, Path: []byte("/usr/bin/cat")}, new(int))
	if c.list[another].Name != "/usr/bin/cat" {
		t.Errorf("another process's component is %+v", c.list[another])
	}
	for i := range 30 {
		for k := range 1000 {
			c.index(&procfs.VMA{Kind: procfs.KindFile, Inode: uint64(i<<20 + k), Path: long}, new(int))
		}
	}
	if c.bytes > maxTableNames {
		t.Errorf("%d bytes of names", c.bytes)
	}
}

// TestChangesMeanwhile: a process that ended while the snapshot was taken, and
// one that came.
func TestChangesMeanwhile(t *testing.T) {
	ends, comes := sleeper(t), 0
	t1, err := newTaking(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer t1.close()
	t1.limited = context.Background()
	if err := t1.begin(); err != nil {
		t.Fatal(err)
	}
	t1.lookAll()
	t1.readAll()
	if err := unix.Kill(ends, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for { // until it is a zombie: only this test could reap it
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(ends) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
	}
	comes = sleeper(t)
	if err := t1.end(); err != nil {
		t.Fatal(err)
	}
	has := func(list []Passing, pid int) bool {
		return slices.ContainsFunc(list, func(p Passing) bool { return p.PID == pid && p.StartTime != 0 && p.Comm == "cat" })
	}
	if c := &t1.s.Changes; !has(c.Went, ends) || !has(c.Came, comes) || has(c.Came, ends) || has(c.Went, comes) {
		t.Errorf("%d ends, %d comes: %+v", ends, comes, c)
	}
}
