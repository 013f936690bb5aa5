package procfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fixtures = "../testdata/proc"

// openFixture opens a process of a fixture tree.
func openFixture(t *testing.T, tree string, pid int) *Process {
	t.Helper()
	fs, err := New(filepath.Join(fixtures, tree))
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestNewRefusesWhatIsNoDirectory(t *testing.T) {
	if _, err := New(filepath.Join(fixtures, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent root: %v", err)
	}
	if _, err := New(filepath.Join(fixtures, "README.md")); err == nil {
		t.Error("a file was taken for a root")
	}
}

func TestStatmIsInBytes(t *testing.T) {
	got, err := parseStatm([]byte("730 458 430 5 0 89 0\n"), 4096)
	want := Statm{Size: 730 << 12, Resident: 458 << 12, Shared: 430 << 12, Text: 5 << 12, Data: 89 << 12}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestStat(t *testing.T) {
	st, err := openFixture(t, "6.18", 4001).Stat()
	want := Stat{PID: 4001, Comm: "sleep", State: 'S', PPID: 4000, Flags: 4194304, MinFlt: 145, MajFlt: 1, Priority: 20,
		NumThreads: 1, StartTime: 300751, VSize: 2990080, RSSPages: 414}
	if err != nil || st != want {
		t.Errorf("got %+v, %v; want %+v", st, err, want)
	}
	if st.KernelThread() || st.Zombie() {
		t.Error("sleep is neither kernel thread nor zombie")
	}
}

func TestStatOfOddName(t *testing.T) {
	p := openFixture(t, "5.10", 4001)
	const name = "a) R 1 (b\nc"
	st, err := p.Stat()
	if err != nil || st.Comm != name || st.State != 'S' || st.StartTime != 300751 {
		t.Errorf("got %+v, %v", st, err)
	}
	if comm, err := p.Comm(); err != nil || comm != name {
		t.Errorf("Comm: %q, %v", comm, err)
	}
	if comm, err := p.TaskComm(4001); err != nil || comm != name {
		t.Errorf("TaskComm: %q, %v", comm, err)
	}
}

func TestKernelThread(t *testing.T) {
	p := openFixture(t, "6.18", 2)
	st, err := p.Stat()
	if err != nil || !st.KernelThread() || st.Comm != "kthreadd" {
		t.Errorf("Stat: %+v, %v", st, err)
	}
	if _, err := p.SmapsRollup(); !errors.Is(err, ErrKernelThread) {
		t.Errorf("SmapsRollup: %v", err)
	}
	if err := p.Maps(func(*VMA) {}); !errors.Is(err, ErrKernelThread) {
		t.Errorf("Maps: %v", err)
	}
	if _, err := p.Exe(); !errors.Is(err, ErrKernelThread) {
		t.Errorf("Exe: %v", err)
	}
	if args, err := p.Cmdline(); err != nil || len(args) != 0 {
		t.Errorf("Cmdline: %q, %v", args, err)
	}
}

func TestZombieIsGone(t *testing.T) {
	p := openFixture(t, "6.18", 4002)
	if st, err := p.Stat(); err != nil || !st.Zombie() {
		t.Errorf("Stat: %+v, %v", st, err)
	}
	if _, err := p.SmapsRollup(); !errors.Is(err, ErrGone) {
		t.Errorf("SmapsRollup: %v", err)
	}
	if err := p.Smaps(func(*VMA) {}); !errors.Is(err, ErrGone) {
		t.Errorf("Smaps: %v", err)
	}
	if s, err := p.Status(); err != nil || s.HasMemory || s.State != 'Z' {
		t.Errorf("Status: %+v, %v", s, err)
	}
}

func TestStatus(t *testing.T) {
	for _, tree := range []string{"6.18", "5.10"} {
		s, err := openFixture(t, tree, 4001).Status()
		if err != nil {
			t.Fatal(err)
		}
		if s.Tgid != 4001 || s.PPid != 4000 || s.Threads != 1 || s.State != 'S' || !s.HasMemory ||
			s.VmHWM != 1832<<10 || s.RssAnon != 112<<10 || s.RssFile != 1720<<10 || s.RssShmem != 0 || s.VmPTE != 48<<10 {
			t.Errorf("%s: %+v", tree, s)
		}
		if len(s.NSpid) != 1 || s.NSpid[0] != 4001 {
			t.Errorf("%s: NSpid %v", tree, s.NSpid)
		}
	}
}

func TestStatusOfNestedNamespace(t *testing.T) {
	s, err := parseStatus([]byte("Tgid:\t4001\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t4001\t17\t1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.NSpid) != 3 || s.NSpid[1] != 17 || s.NSpid[2] != 1 {
		t.Errorf("NSpid %v", s.NSpid)
	}
	if s.Uid != [4]uint32{1000, 1001, 1002, 1003} {
		t.Errorf("Uid %v", s.Uid)
	}
}

func TestIdentity(t *testing.T) {
	p := openFixture(t, "6.18", 4001)
	if exe, err := p.Exe(); err != nil || exe != "/usr/bin/sleep" {
		t.Errorf("Exe: %q, %v", exe, err)
	}
	if args, err := p.Cmdline(); err != nil || strings.Join(args, "|") != "sleep|600" {
		t.Errorf("Cmdline: %q, %v", args, err)
	}
	if ino, err := p.NSInode("pid"); err != nil || ino != 4026531836 {
		t.Errorf("NSInode: %d, %v", ino, err)
	}
	if tids, err := p.Tasks(); err != nil || len(tids) != 1 || tids[0] != 4001 {
		t.Errorf("Tasks: %v, %v", tids, err)
	}
	if _, err := p.TaskComm(4099); !errors.Is(err, ErrGone) {
		t.Errorf("TaskComm of no thread: %v", err)
	}
}

// TestRollupFallback compares the sum over 5.10's smaps, which has no
// smaps_rollup, with the smaps_rollup of the same process.
func TestRollupFallback(t *testing.T) {
	exact, err := openFixture(t, "6.18", 4001).SmapsRollup()
	if err != nil || exact.Summed {
		t.Fatalf("%+v, %v", exact, err)
	}
	if exact.Rss != 1832<<10 || exact.Pss != 291<<10 || exact.PssFile != 179<<10 || exact.USS() != 152<<10 || exact.Anonymous != 112<<10 {
		t.Errorf("rollup: %+v", exact)
	}
	n := 0
	p := openFixture(t, "5.10", 4001)
	if err := p.Maps(func(*VMA) { n++ }); err != nil {
		t.Fatal(err)
	}
	summed, err := p.SmapsRollup()
	if err != nil || !summed.Summed {
		t.Fatalf("%+v, %v", summed, err)
	}
	if summed.Rss != exact.Rss || summed.USS() != exact.USS() || summed.Anonymous != exact.Anonymous {
		t.Errorf("summed %+v; rollup %+v", summed, exact)
	}
	if summed.Pss > exact.Pss || exact.Pss-summed.Pss > uint64(n)<<10 {
		t.Errorf("Pss: summed %d, rollup %d: more than 1 KiB a mapping", summed.Pss, exact.Pss)
	}
}

func TestMapsAndSmapsAgree(t *testing.T) {
	p := openFixture(t, "6.18", 4001)
	var maps, smaps []string
	collect := func(to *[]string) func(*VMA) {
		return func(v *VMA) {
			*to = append(*to, v.Perms.String()+" "+v.Kind.String()+" "+string(v.Path))
		}
	}
	if err := p.Maps(collect(&maps)); err != nil {
		t.Fatal(err)
	}
	if err := p.Smaps(collect(&smaps)); err != nil {
		t.Fatal(err)
	}
	if len(maps) != 37 || strings.Join(maps, "\n") != strings.Join(smaps, "\n") {
		t.Errorf("maps:\n%s\nsmaps:\n%s", strings.Join(maps, "\n"), strings.Join(smaps, "\n"))
	}
	if maps[5] != "rw-p heap [heap]" || maps[24] != "r--s file /usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache" {
		t.Errorf("%q, %q", maps[5], maps[24])
	}
}

// TestNotReplacedByNamesake: the files of a Process are those of the process
// that was opened, whoever has its PID later.
func TestNotReplacedByNamesake(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "7")
	writeProcess(t, dir, "7 (first) S 1 "+strings.Repeat("0 ", 30))
	fs, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	writeProcess(t, dir, "7 (second) S 1 "+strings.Repeat("0 ", 30))
	if st, err := p.Stat(); !errors.Is(err, ErrGone) {
		t.Errorf("got %+v, %v", st, err)
	}
}

func writeProcess(t *testing.T, dir, stat string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
}
