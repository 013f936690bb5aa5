//go:build integration

package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// TestMain also is a child process that takes as much memory as it is told, a
// line at a time, in MiB.
func TestMain(m *testing.M) {
	if os.Getenv("CGROUP_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		mib, err := strconv.Atoi(in.Text())
		if err != nil {
			panic(err)
		}
		if _, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE); err != nil {
			panic(err)
		}
	}
}

// job is a control group with a process in it.
type job struct {
	t    *testing.T
	h    *Hierarchy
	path string
	cmd  *exec.Cmd
	in   *os.File
	out  *bufio.Reader
}

// newJob makes a group below the test's own, limited to some MiB.
func newJob(t *testing.T, limit int) *job {
	t.Helper()
	h, err := Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	j := &job{t: t, h: h, path: fmt.Sprintf("/memtrace-test-%d", os.Getpid())}
	if h.Version() == 2 { // as nothing is in the root of a test VM that keeps it from having children
		j.write(filepath.Join(h.Root(), "cgroup.subtree_control"), "+memory")
	}
	dir := filepath.Join(h.Root(), j.path)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	name := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[h.Version()]
	j.write(filepath.Join(dir, name), strconv.Itoa(limit<<20))
	j.start()
	return j
}

func (j *job) write(file, text string) {
	j.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		j.t.Fatal(err)
	}
}

func (j *job) start() {
	j.t.Helper()
	self, err := os.Executable()
	if err != nil {
		j.t.Fatal(err)
	}
	j.cmd = exec.Command("/bin/sh", "-c", `echo 0 >"$0/cgroup.procs"; exec "$1"`, filepath.Join(j.h.Root(), j.path), self)
	j.cmd.Env = append(os.Environ(), "CGROUP_TEST_CHILD=1")
	in, theirs, err := os.Pipe()
	if err != nil {
		j.t.Fatal(err)
	}
	j.cmd.Stdin, j.in = in, theirs
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		j.t.Fatal(err)
	}
	if err := j.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	_ = in.Close()
	j.t.Cleanup(func() { _ = j.cmd.Process.Kill(); _ = j.cmd.Wait(); _ = theirs.Close() })
	j.out = bufio.NewReader(out)
	if line, err := j.out.ReadString('\n'); err != nil {
		j.t.Fatalf("child said %q: %v", line, err)
	}
}

// take has the child take some MiB; it reports whether the child lived on.
func (j *job) take(mib int) bool {
	j.t.Helper()
	if _, err := fmt.Fprintln(j.in, mib); err != nil {
		j.t.Fatal(err)
	}
	line, _ := j.out.ReadString('\n')
	return line == "done\n"
}

func (j *job) read() *Group {
	j.t.Helper()
	var g Group
	if err := j.h.Read(j.path, &g); err != nil {
		j.t.Fatal(err)
	}
	return &g
}

// onFile is the number in one of the group's files.
func (j *job) onFile(names map[int]string) uint64 {
	j.t.Helper()
	text, err := os.ReadFile(filepath.Join(j.h.Root(), j.path, names[j.h.Version()]))
	if err != nil {
		j.t.Fatal(err)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		j.t.Fatal(err)
	}
	return v
}

// TestGroupWithLimit makes a group with a limit, takes memory in it, and
// compares with cgroupfs; then goes over the limit, until the kernel kills.
func TestGroupWithLimit(t *testing.T) {
	j := newJob(t, 64)
	before := j.read().Current.Bytes
	if !j.take(20) {
		t.Fatal("the child was killed under its limit")
	}
	current := j.onFile(map[int]string{1: "memory.usage_in_bytes", 2: "memory.current"})
	g := j.read()
	// The kernel charges in batches of 64 pages for each CPU.
	if slack := uint64(64 * 4096 * 64); g.Current.Bytes+slack < current || g.Current.Bytes > current+slack || g.Current.Bytes < before+19<<20 {
		t.Errorf("current %d, cgroupfs %d, before %d", g.Current.Bytes, current, before)
	}
	if g.Max != (Value{Bytes: 64 << 20, Outcome: procfs.Known}) {
		t.Errorf("limit %+v", g.Max)
	}
	anon, ok := j.anonymous()
	// The kernel adds memory.stat up every two seconds (FLUSH_TIME, mm/memcontrol.c), and not always when it is read.
	for began := time.Now(); ok && anon < 18<<20 && time.Since(began) < 10*time.Second; anon, ok = j.anonymous() {
		time.Sleep(50 * time.Millisecond)
	}
	if !ok || anon < 18<<20 || anon > 40<<20 {
		t.Errorf("anonymous: %d, %v", anon, ok)
	}
	if groups, err := j.h.Groups(); err != nil || !slices.Contains(groups, j.path) {
		t.Errorf("groups %v, %v", groups, err)
	}
	if j.take(100) {
		t.Fatal("the child got more than its limit")
	}
	_ = j.cmd.Wait()
	g = j.read()
	if kills, ok := g.Events.Get("oom_kill"); !ok || kills != 1 {
		t.Errorf("%d kills, %v", kills, ok)
	}
	if g.Peak.Outcome.Ok() && (g.Peak.Bytes < 60<<20 || g.Peak.Bytes > 64<<20) {
		t.Errorf("peak %+v", g.Peak)
	}
}

// anonymous is the anonymous memory of the group, by either version's name for it.
func (j *job) anonymous() (bytes uint64, ok bool) {
	g := j.read()
	if bytes, ok = g.Stat.Get("anon"); !ok {
		bytes, ok = g.Stat.Get("rss") // of version 1
	}
	return bytes, ok
}

// TestCgroupOfProcess: what /proc says and what cgroupfs says is the same group.
func TestCgroupOfProcess(t *testing.T) {
	j := newJob(t, 64)
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(j.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if group, err := p.Cgroup(); err != nil || group != j.path {
		t.Errorf("%q, %v; it was put into %s", group, err, j.path)
	}
	// Gone while it is read.
	_ = j.cmd.Process.Kill()
	_ = j.cmd.Wait()
	if err := os.Remove(filepath.Join(j.h.Root(), j.path)); err != nil {
		t.Fatal(err)
	}
	var g Group
	if err := j.h.Read(j.path, &g); procfs.OutcomeOf(err) != procfs.Gone {
		t.Errorf("a group that is gone: %v", err)
	}
	if err := os.Mkdir(filepath.Join(j.h.Root(), j.path), 0o755); err != nil { // for the clean-up
		t.Fatal(err)
	}
}
