package procfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// TestOddNameOfLiveProcess runs a program whose name looks like the fields
// that follow it.
func TestOddNameOfLiveProcess(t *testing.T) {
	const name = "a) R 1 (b\nc"
	cmd := startChild(t, name)
	p := openLive(t, cmd.Process.Pid)
	st, err := p.Stat()
	if err != nil || st.Comm != name || st.PPID != os.Getpid() || st.PID != cmd.Process.Pid {
		t.Errorf("Stat: %+v, %v", st, err)
	}
	if comm, err := p.Comm(); err != nil || comm != name {
		t.Errorf("Comm: %q, %v", comm, err)
	}
	if args, err := p.Cmdline(); err != nil || len(args) != 1 || args[0] != cmd.Path {
		t.Errorf("Cmdline: %q, %v", args, err)
	}
	self, err := os.Executable()
	if exe, exeErr := p.Exe(); exeErr != nil || err != nil || exe != self {
		t.Errorf("Exe: %q, %v", exe, exeErr)
	}
	tids, err := p.Tasks()
	if err != nil || len(tids) == 0 || tids[0] != cmd.Process.Pid {
		t.Fatalf("Tasks: %v, %v", tids, err)
	}
	if comm, err := p.TaskComm(tids[0]); err != nil || comm != name {
		t.Errorf("TaskComm: %q, %v", comm, err)
	}
}

// TestStackPointer: the first thread of a stopped child is on [stack], or on
// one of Go's own stacks; in any case on memory that can be written.
func TestStackPointer(t *testing.T) {
	for text, want := range map[string]uint64{
		"running\n":                                 0,
		"-1 0x7ffc6d5bd728 0x7f70873bb503\n":        0x7ffc6d5bd728,
		"34 0x0 0x0 0x2 0x4022 0xf 0x0 0x7f 0x80\n": 0x7f,
	} {
		if sp, ok, err := parseSyscall([]byte(text)); err != nil || ok != (want != 0) || sp != want {
			t.Errorf("%q: %#x, %v, %v", text, sp, ok, err)
		}
	}
	cmd := startChild(t, "child")
	proctest.Stop(t, cmd.Process.Pid)
	p := openLive(t, cmd.Process.Pid)
	sp, ok, err := p.TaskStackPointer(cmd.Process.Pid)
	if err != nil || !ok {
		t.Fatalf("%#x, %v, %v", sp, ok, err)
	}
	found := false
	err = p.Maps(func(v *VMA) { found = found || v.Start <= sp && sp < v.End && v.Perms&Write != 0 })
	if err != nil || !found {
		t.Errorf("%#x is in no writable mapping: %v", sp, err)
	}
	if _, _, err := p.TaskStackPointer(1); !errors.Is(err, ErrGone) {
		t.Errorf("no thread: %v", err)
	}
}

// awkScript sums smaps; awkSums does the same with this package.
const awkScript = `/^[0-9a-f]+-/ {n++} /^Rss:/ {r+=$2} /^Anonymous:/ {a+=$2} /^Pss:/ {p+=$2} /^Private_(Clean|Dirty):/ {u+=$2}
	/^Referenced:/ {f+=$2} /^Shared_/ {s+=$2} END {print n, r*1024, a*1024, p*1024, u*1024, f*1024, s*1024}`

func awkSums(t *testing.T, p *Process) (sums []string, total Memory, n int) {
	t.Helper()
	err := p.Smaps(func(v *VMA) { n++; total.Add(&v.Memory) })
	if err != nil {
		t.Fatal(err)
	}
	shared := total.SharedClean + total.SharedDirty + total.SharedHugetlb
	return strings.Fields(fmt.Sprint(n, total.Rss, total.Anonymous, total.Pss, total.USS(), total.Referenced, shared)), total, n
}

func awk(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.Command("awk", awkScript, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestSmapsAgainstAwk sums the smaps of a fixture, and of a stopped child,
// with awk and here. What other processes map changes a stopped process's
// shares, but neither its mappings nor its Rss.
func TestSmapsAgainstAwk(t *testing.T) {
	got, _, _ := awkSums(t, openFixture(t, "6.18", 4001))
	if want := awk(t, fixtures+"/6.18/4001/smaps"); !slices.Equal(got, want) {
		t.Errorf("fixture: got %v; awk says %v", got, want)
	}
	cmd := startChild(t, "child")
	proctest.Stop(t, cmd.Process.Pid)
	p := openLive(t, cmd.Process.Pid)
	got, sum, n := awkSums(t, p)
	if want := awk(t, fmt.Sprintf("/proc/%d/smaps", cmd.Process.Pid)); !slices.Equal(got[:3], want[:3]) {
		t.Errorf("child: mappings, rss, anonymous: got %v; awk says %v", got[:3], want[:3])
	}
	rollup, err := p.SmapsRollup()
	if err != nil || rollup.Summed {
		t.Fatal(rollup, err)
	}
	if rollup.Rss != sum.Rss || rollup.Anonymous != sum.Anonymous || rollup.Swap != sum.Swap {
		t.Errorf("rollup %+v; %d mappings summed %+v", rollup.Memory, n, sum)
	}
}

// TestRunsAgreeWithSmaps checks both ways of reading page states against the
// kernel's own count in smaps.
func TestRunsAgreeWithSmaps(t *testing.T) {
	cmd := startChild(t, "child")
	proctest.Stop(t, cmd.Process.Pid)
	p := openLive(t, cmd.Process.Pid)
	m, err := p.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	checked, huge := 0, hugePage(t)
	err = p.Smaps(func(v *VMA) {
		if v.Start >= 1<<63 {
			return
		}
		checked++
		scanned, fileZero := runBytes(t, m.Runs, v), runBytes(t, m.readRuns, v)
		if m.Scans() && scanned != v.Rss {
			t.Errorf("%x-%x %s: scan says %d bytes, smaps %d", v.Start, v.End, v.Path, scanned, v.Rss)
		}
		if fileZero < v.Rss || v.Kind == KindFile && fileZero != v.Rss || zeroFrame() != 0 && (fileZero-v.Rss)%huge != 0 {
			t.Errorf("%x-%x %s: pagemap says %d bytes, smaps %d", v.Start, v.End, v.Path, fileZero, v.Rss)
		}
	})
	if err != nil || checked < 10 {
		t.Errorf("%d mappings, %v", checked, err)
	}
}

// hugePage is the size of the huge zero page, where there may be one.
func hugePage(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if os.IsNotExist(err) {
		return 1 << 62
	}
	size, err2 := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || err2 != nil || size == 0 {
		t.Fatal(err, err2)
	}
	return size
}

// TestZeroPage: pages that were read and never written are in memory where smaps
// says so, however page states are read, where the kernel shows which page that
// is. Most kernels have one zero page for all, which smaps doesn't count.
func TestZeroPage(t *testing.T) {
	whole, err := unix.Mmap(-1, 0, int(18*pageSize), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(whole) }()
	mem := whole[pageSize : 17*pageSize] // what lies around it keeps it a mapping of its own
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		t.Fatal(err)
	}
	sum := byte(0)
	for page := range 5 { // written: 1 and 3; read: 0, 2 and 4
		at := page * int(pageSize)
		if page%2 == 1 {
			mem[at] = 1
		}
		sum += mem[at]
	}
	if sum != 2 {
		t.Fatal("the pages hold something else than what was written")
	}
	p := openLive(t, os.Getpid())
	m, err := p.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	v := &VMA{Start: start, End: start + uint64(len(mem))}
	want := smapsRSS(t, p, v)
	if want != 2*pageSize && want != 5*pageSize {
		t.Fatalf("smaps says %d bytes, of 2 pages written and 3 read", want)
	}
	scanned, read := runBytes(t, m.Runs, v), runBytes(t, m.readRuns, v)
	if m.Scans() && scanned != want || zeroFrame() != 0 && read != want {
		t.Errorf("scan says %d bytes, pagemap %d, smaps %d", scanned, read, want)
	}
	if want == 5*pageSize {
		if zeroFrame() != 0 {
			t.Errorf("page frame %d is taken for a zero page, and this kernel has none", zeroFrame())
		}
		return
	}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		t.Fatal(err)
	}
	if caps[0].Effective>>unix.CAP_SYS_ADMIN&1 != 0 && zeroFrame() == 0 {
		t.Error("it is not seen which page the zero page is")
	}
}

// smapsRSS is what smaps says of a mapping.
func smapsRSS(t *testing.T, p *Process, of *VMA) uint64 {
	t.Helper()
	rss, found := uint64(0), false
	if err := p.Smaps(func(v *VMA) {
		if v.Start == of.Start && v.End == of.End {
			rss, found = v.Rss, true
		}
	}); err != nil || !found {
		t.Fatal(found, err)
	}
	return rss
}

func runBytes(t *testing.T, runs func(a, b uint64, fn func(a, b uint64, s PageState)) error, v *VMA) (bytes uint64) {
	t.Helper()
	err := runs(v.Start, v.End, func(start, end uint64, s PageState) {
		if s == PagePresent {
			bytes += end - start
		}
	})
	if err != nil {
		t.Error(err)
	}
	return bytes
}

// TestHaveScan: a kernel of 6.7 or later must have PAGEMAP_SCAN, so that a
// broken probe doesn't hide behind the fallback.
func TestHaveScan(t *testing.T) {
	err := haveScan()
	if err != nil && !errors.Is(err, ErrNotSupported) {
		t.Fatal(err)
	}
	var u unix.Utsname
	if uerr := unix.Uname(&u); uerr != nil {
		t.Fatal(uerr)
	}
	var major, minor int
	if _, serr := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); serr != nil {
		t.Fatal(serr)
	}
	if newer := major > 6 || major == 6 && minor >= 7; newer != (err == nil) {
		t.Errorf("Linux %d.%d: %v", major, minor, err)
	}
}

func TestDeadProcessIsGone(t *testing.T) {
	cmd := startChild(t, "child")
	pid := cmd.Process.Pid
	p := openLive(t, pid)
	m, err := p.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo // wait, but leave the zombie
	if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("zombie", func(t *testing.T) {
		memoryIsGone(t, p, m)
		if _, err := p.Exe(); !errors.Is(err, ErrGone) {
			t.Errorf("Exe: %v", err)
		}
		if st, err := p.Stat(); err != nil || !st.Zombie() {
			t.Errorf("Stat: %+v, %v", st, err)
		}
		if h, err := (FS{root: DefaultRoot}).Hold(pid); !errors.Is(err, ErrGone) {
			t.Errorf("Hold: %v, %v", h, err)
		}
	})
	_ = cmd.Wait()
	t.Run("reaped", func(t *testing.T) {
		memoryIsGone(t, p, m)
		for name, read := range map[string]func() error{
			"Stat":     func() error { _, err := p.Stat(); return err },
			"Statm":    func() error { _, err := p.Statm(); return err },
			"Status":   func() error { _, err := p.Status(); return err },
			"Comm":     func() error { _, err := p.Comm(); return err },
			"Cmdline":  func() error { _, err := p.Cmdline(); return err },
			"Line":     func() error { _, err := p.CommandLine(); return err },
			"Cgroup":   func() error { _, err := p.Cgroup(); return err },
			"OOMScore": func() error { _, err := p.OOMScore(); return err },
			"Exe":      func() error { _, err := p.Exe(); return err },
			"Tasks":    func() error { _, err := p.Tasks(); return err },
			"TaskComm": func() error { _, err := p.TaskComm(pid); return err },
			"NSInode":  func() error { _, err := p.NSInode("pid"); return err },
			"Process":  func() error { _, err := (FS{root: DefaultRoot}).Process(pid); return err },
			"Hold":     func() error { _, err := (FS{root: DefaultRoot}).Hold(pid); return err },
		} {
			if err := read(); !errors.Is(err, ErrGone) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func memoryIsGone(t *testing.T, p *Process, m *Pagemap) {
	t.Helper()
	if _, err := p.SmapsRollup(); !errors.Is(err, ErrGone) {
		t.Errorf("SmapsRollup: %v", err)
	}
	if err := p.Smaps(func(*VMA) {}); !errors.Is(err, ErrGone) {
		t.Errorf("Smaps: %v", err)
	}
	if err := p.Maps(func(*VMA) {}); !errors.Is(err, ErrGone) {
		t.Errorf("Maps: %v", err)
	}
	if _, err := p.NUMA(nil); !errors.Is(err, ErrGone) {
		t.Errorf("NUMA: %v", err)
	}
	if ok, err := p.FindVMA(1<<20, func(*VMA, []byte) {}); ok || !errors.Is(err, ErrGone) {
		t.Errorf("FindVMA: %v, %v", ok, err)
	}
	for name, runs := range map[string]func(a, b uint64, fn func(a, b uint64, s PageState)) error{
		"Runs": m.Runs, "readRuns": m.readRuns,
	} {
		err := runs(1<<20, 1<<21, func(a, b uint64, s PageState) { t.Errorf("%s found a page of a dead process", name) })
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFirstThreadHasEnded: the memory of a process that lost its first thread
// is read through another one.
func TestFirstThreadHasEnded(t *testing.T) {
	cmd := startChildAs(t, "child", "headless")
	p := openLive(t, cmd.Process.Pid)
	if st, err := p.Stat(); err != nil || !st.Zombie() || st.NumThreads < 2 {
		t.Fatalf("%+v, %v", st, err)
	}
	for name, read := range map[string]func(*Process) (bool, error){
		"Exe":         func(p *Process) (bool, error) { exe, err := p.Exe(); return exe != "", err },
		"Statm":       func(p *Process) (bool, error) { s, err := p.Statm(); return s.Resident > 0, err },
		"SmapsRollup": func(p *Process) (bool, error) { r, err := p.SmapsRollup(); return r.Rss > 0, err },
		"Maps": func(p *Process) (bool, error) {
			n := 0
			err := p.Maps(func(*VMA) { n++ })
			return n > 0, err
		},
		"Smaps": func(p *Process) (bool, error) {
			var sum Memory
			err := p.Smaps(func(v *VMA) { sum.Add(&v.Memory) })
			return sum.Rss > 0, err
		},
		"OpenPagemap": func(p *Process) (bool, error) {
			m, err := p.OpenPagemap()
			if err != nil {
				return false, err
			}
			return true, m.Close()
		},
	} {
		if some, err := read(openLive(t, cmd.Process.Pid)); err != nil || !some {
			t.Errorf("%s: %v, %v", name, some, err)
		}
	}
	h, err := (FS{root: DefaultRoot}).Hold(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if !h.Alive() {
		t.Error("a process with threads left is not alive")
	}
}

func TestHold(t *testing.T) {
	cmd := startChild(t, "child")
	h, err := (FS{root: DefaultRoot}).Hold(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if st, err := h.Stat(); err != nil || st.StartTime != h.StartTime || h.StartTime == 0 {
		t.Errorf("start time %d; %+v, %v", h.StartTime, st, err)
	}
	if !h.Alive() {
		t.Error("running child is not alive")
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := h.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("cancelled Wait: %v", err)
	}
	waited := make(chan error)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() { waited <- h.Wait(ctx) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("Wait: %v", err)
	}
	if h.Alive() {
		t.Error("killed child is alive")
	}
}

func TestPidfdOfNobody(t *testing.T) {
	for _, pid := range []int{-1, 0, 1<<31 - 1} {
		if _, err := OpenPidfd(pid); err == nil {
			t.Errorf("pidfd of %d", pid)
		}
	}
}

// TestPermission reads init's memory as nobody would; as root the kernel says
// yes to everything, so the refusal is checked on the error alone.
func TestPermissionSaysWhatToDo(t *testing.T) {
	p := &Process{pid: 1, dir: -1, thread: -1}
	err := p.wrap("open", "pagemap", unix.EACCES)
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") {
		t.Error(err)
	}
	if err := p.wrap("open", "smaps", unix.EPERM); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}

// TestSmapsWhile stops at a mapping, and is Smaps where it never does.
func TestSmapsWhile(t *testing.T) {
	p := openFixture(t, "6.18", 4001)
	var all, first []uint64
	err := p.Smaps(func(v *VMA) { all = append(all, v.Start) })
	if err != nil || len(all) < 4 {
		t.Fatal(all, err)
	}
	err = p.SmapsWhile(func(v *VMA) bool { first = append(first, v.Start); return len(first) < 3 })
	if err != nil || !slices.Equal(first, all[:3]) {
		t.Errorf("stopped at the third: %x, %v", first, err)
	}
	first = nil
	err = p.SmapsWhile(func(v *VMA) bool { first = append(first, v.Start); return true })
	if err != nil || !slices.Equal(first, all) {
		t.Errorf("never stopped: %x, %v", first, err)
	}
}
