package live

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
)

func open(t *testing.T, o Options) *Source {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func read(t *testing.T, s *Source, want top.Want) *top.Snapshot {
	t.Helper()
	snapshot, err := s.Read(context.Background(), want)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// sleeper is a process that stays as it is.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	asleep := strconv.Itoa(unix.SYS_CLOCK_NANOSLEEP) + " "
	for { // until it sleeps: its loader maps libraries before that
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(call), asleep) {
			return cmd.Process.Pid
		}
	}
}

func processOf(t *testing.T, s *top.Snapshot, pid int) *top.Process {
	t.Helper()
	i := slices.IndexFunc(s.Processes, func(p top.Process) bool { return p.PID == pid })
	if i < 0 {
		t.Fatalf("process %d is missing", pid)
	}
	return &s.Processes[i]
}

// kernelSays reads "key: N kB" lines of a file of /proc, summed up by key.
func kernelSays(t *testing.T, pid int, file string) map[string]int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]int64)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sums[strings.TrimSuffix(fields[0], ":")] += n << 10
		}
	}
	return sums
}

// Other processes come and go, and share libraries with the sleeper, so that
// its PSS may change between two readings: of many pairs, one must agree.
func settled(t *testing.T, pid int, file string, agree func() bool) {
	t.Helper()
	for range 100 {
		if agree() {
			return
		}
	}
	t.Errorf("not once the same; the kernel says %v", kernelSays(t, pid, file))
}

func TestProcessAgreesWithTheKernel(t *testing.T) {
	pid := sleeper(t)
	s := open(t, Options{})
	var p *top.Process
	settled(t, pid, "smaps_rollup", func() bool {
		p = processOf(t, read(t, s, top.Want{View: top.Processes}), pid)
		says := kernelSays(t, pid, "smaps_rollup")
		return p.PSS == top.Of(says["Pss"]) && p.USS == top.Of(says["Private_Clean"]+says["Private_Dirty"])
	})
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	status := kernelSays(t, pid, "status")
	if p.Virt.N != status["VmSize"] || p.User != me.Username || p.Command != "sleep 1000" || p.Program != "sleep" ||
		p.PPID != os.Getpid() || p.Threads.N != 1 || p.Nice.N != p.Priority.N-20 || p.Kernel {
		t.Errorf("%+v, status %v", p, status)
	}
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !bytes.Contains(cgroups, []byte(":"+p.Cgroup+"\n")) {
		t.Errorf("cgroup %q is not in %q (%v)", p.Cgroup, cgroups, err)
	}
}

func TestMappingsAgreeWithTheKernel(t *testing.T) {
	pid := sleeper(t)
	s := open(t, Options{})
	settled(t, pid, "smaps", func() bool {
		says := kernelSays(t, pid, "smaps")
		snapshot := read(t, s, top.Want{View: top.Mappings, PID: pid})
		var size, rss, pss, uss int64
		for _, m := range snapshot.Mappings {
			size, rss, pss, uss = size+int64(m.End-m.Start), rss+m.RSS.N, pss+m.PSS.N, uss+m.USS.N
		}
		return snapshot.Of.Name == "sleep" && size == says["Size"] && rss == says["Rss"] && pss == says["Pss"] &&
			uss == says["Private_Clean"]+says["Private_Dirty"]
	})
}

// Each process's components add up to its RSS, and libc is one of them.
func TestComponentsAddUp(t *testing.T) {
	pid := sleeper(t)
	s := open(t, Options{})
	snapshot := read(t, s, top.Want{View: top.Components})
	var rss int64
	for _, h := range s.parts.processes {
		for _, m := range h.value {
			rss += int64(m.Rss)
		}
	}
	var shown int64
	libc := false
	for _, c := range snapshot.Components {
		shown += c.RSS.N
		libc = libc || strings.Contains(c.Name, "libc") && c.Kind == "file" && c.Processes > 0
	}
	if shown != rss || rss == 0 || !libc {
		t.Errorf("components add up to %d, want %d; libc among them: %v", shown, rss, libc)
	}
	of := s.parts.processes[identityOf(t, snapshot, pid)]
	var own int64
	for _, m := range of.value {
		own += int64(m.Rss)
	}
	if want := kernelSays(t, pid, "smaps")["Rss"]; own != want {
		t.Errorf("the sleeper's components come to %d, want %d", own, want)
	}
}

// The mappings that were read last stay as long as the stall budget wants.
func TestMappingsKeepToTheStallBudget(t *testing.T) {
	pid := sleeper(t)
	s := open(t, Options{StallBudget: 2 * time.Millisecond})
	want := top.Want{View: top.Mappings, PID: pid}
	if first := read(t, s, want); first.Cost.Walked != 1 || len(first.Mappings) == 0 {
		t.Errorf("the first time: %+v", first.Cost)
	}
	if second := read(t, s, want); second.Cost.Walked != 0 || len(second.Mappings) == 0 {
		t.Errorf("unchanged: %+v, %d mappings", second.Cost, len(second.Mappings))
	}
	tiny := open(t, Options{StallBudget: time.Nanosecond})
	if of := read(t, tiny, want).Of; !strings.Contains(of.Problem, "stall budget") {
		t.Errorf("a budget that allows nothing: %+v", of)
	}
}

func TestThreads(t *testing.T) {
	s := open(t, Options{})
	snapshot := read(t, s, top.Want{View: top.Threads, PID: os.Getpid()})
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(snapshot.Threads); n < 2 || n > len(tasks) {
		t.Errorf("%d threads, the kernel has %d", n, len(tasks))
	}
	for _, thread := range snapshot.Threads {
		if thread.Name == "" || !thread.MinorFaults.Known() || !thread.Processor.Known() {
			t.Errorf("%+v", thread)
		}
	}
}

func TestProcessThatIsNotThere(t *testing.T) {
	s := open(t, Options{})
	for _, view := range []top.View{top.Threads, top.Mappings} {
		if of := read(t, s, top.Want{View: view, PID: 1 << 22}).Of; !strings.Contains(of.Problem, "ended") {
			t.Errorf("%s: %+v", view, of)
		}
		if of := read(t, s, top.Want{View: view}).Of; of.Problem == "" {
			t.Errorf("%s of nothing: %+v", view, of)
		}
		self := read(t, s, top.Want{View: view, PID: os.Getpid()}).Of
		want := top.Want{View: view, PID: os.Getpid(), Start: self.Start}
		if of := read(t, s, want).Of; of.Problem != "" {
			t.Errorf("%s of this process: %+v", view, of)
		}
		want.Start-- // of one that had the PID before
		if of := read(t, s, want).Of; !strings.Contains(of.Problem, "ended") {
			t.Errorf("%s of the process before: %+v", view, of)
		}
	}
}

// The books add up to the machine's memory, to the byte.
func TestBooksAddUp(t *testing.T) {
	s := open(t, Options{})
	snapshot := read(t, s, top.Want{View: top.Memory})
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var total, sum int64
	if _, err := fmt.Sscanf(string(meminfo), "MemTotal: %d kB", &total); err != nil {
		t.Fatal(err)
	}
	remainder := false
	for _, e := range snapshot.Books {
		if e.Depth == 0 {
			sum += e.Size.N
		}
		if e.Source == "" {
			t.Errorf("%s does not say where it is from", e.Name)
		}
		remainder = remainder || e.Remainder
	}
	if sum != total<<10 || !remainder {
		t.Errorf("the books come to %d of %d; remainder named: %v", sum, total<<10, remainder)
	}
}

func TestEveryViewReads(t *testing.T) {
	s := open(t, Options{StallBudget: 2e6})
	for range 2 {
		for _, view := range top.Views() {
			snapshot := read(t, s, top.Want{View: top.View(view), PID: os.Getpid()})
			if !snapshot.Machine.Total.Known() || len(snapshot.Processes) == 0 {
				t.Errorf("%s: %+v", view, snapshot.Machine)
			}
			var out bytes.Buffer
			if err := top.Write(&out, snapshot, top.WriteOptions{View: top.View(view), Format: "json"}); err != nil {
				t.Errorf("%s: %v", view, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Read(ctx, top.Want{View: top.Processes}); err == nil {
		t.Error("a cancelled Read succeeds")
	}
}
