//go:build integration

package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// The test binary is its own child, in one of the roles of this variable.
const roleVar, argumentVar = "SNAPSHOT_TEST_ROLE", "SNAPSHOT_TEST_ARGUMENT"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "taker":
		must(takeFor(os.Getenv(argumentVar)))
	case "namespace":
		must(reusePID())
	case "sleeper":
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// role makes the command that plays a role.
func role(name, argument string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"="+name, argumentVar+"="+argument)
	cmd.Stderr = os.Stderr
	return cmd
}

// taken is what the role "taker" tells of a process.
type taken struct {
	Access, Pages, Frames string
	RSS, Resident, Runs   uint64
	Why                   string
}

// takeFor takes a snapshot of one process with its pages, and prints it in short.
func takeFor(argument string) error {
	pid, err := strconv.Atoi(argument)
	if err != nil {
		return err
	}
	s, err := Take(context.Background(), Options{PIDs: []int{pid}, Pages: true})
	if err != nil {
		return err
	}
	p := &s.Processes[0]
	out := taken{Access: p.Access.String(), RSS: p.Usage.RSS, Resident: p.Resident, Frames: s.Pages.FramesAccess.String(), Why: p.Why}
	if len(s.Pages.Processes) == 1 {
		out.Pages = s.Pages.Processes[0].Access.String()
		out.Runs = uint64(len(s.Pages.Processes[0].Runs))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// TestTakeByNobody takes a process of root's with ever fewer rights: what may
// not be read is said, and never 0.
func TestTakeByNobody(t *testing.T) {
	pid := sleeper(t)
	for _, c := range []struct {
		name string
		caps []uintptr
		want taken
	}{
		{"none", nil, taken{Access: "no permission", Frames: "no permission"}},
		{"may trace", []uintptr{unix.CAP_SYS_PTRACE}, taken{Access: "known", Pages: "no permission", Frames: "no permission"}},
		{"may trace and read files", []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH},
			taken{Access: "known", Pages: "no permission", Frames: "known"}}, // there is no frame number for which to ask
		{"all", []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_ADMIN}, taken{Access: "known", Pages: "known", Frames: "known"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := takeByNobody(t, pid, c.caps)
			if got.Access != c.want.Access || got.Pages != c.want.Pages || got.Frames != c.want.Frames || got.Resident == 0 ||
				(got.RSS > 0) != (got.Access == "known") || (got.Runs > 0) != (got.Pages == "known") {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func takeByNobody(t *testing.T, pid int, caps []uintptr) (got taken) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "taker")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = proctest.WriteProgram(program, self)
	}
	for dir := filepath.Dir(program); err == nil && dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := role("taker", strconv.Itoa(pid))
	cmd.Path, cmd.Dir = program, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// TestTakePages holds frames and counts against what other files of the kernel
// say: there are as many pages as smaps has of RSS, pagemap calls those
// exclusive that are mapped once, and anonymous memory is in anonymous frames.
func TestTakePages(t *testing.T) {
	pid := sleeper(t)
	s, err := Take(context.Background(), Options{PIDs: []int{pid}, Pages: true})
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Pages; len(p.Processes) != 1 || p.Processes[0].Access != Known || p.FramesAccess != Known || p.FramesLeft != 0 {
		t.Fatalf("%+v", p)
	}
	known := make(map[uint64]FrameRun)
	for _, f := range s.Pages.Frames {
		for i := range uint64(f.Count) {
			known[f.First+i] = f
		}
	}
	exclusive := exclusivePages(t, pid)
	resident := uint64(0)
	for _, r := range s.Pages.Processes[0].Runs {
		for i := range uint64(r.Count) {
			f, ok := known[r.Frame+i]
			if !ok {
				t.Fatalf("nothing is known of frame %d", r.Frame+i)
			}
			if f.Flags&uint64(procfs.FrameZero) != 0 {
				continue
			}
			resident++
			if alone, there := exclusive[r.Page+i]; !there || alone && f.Mapped > 1 {
				t.Errorf("page %#x is mapped %d times; pagemap calls it exclusive: %v (there: %v)", r.Page+i, f.Mapped, alone, there)
			}
			heap := s.Components[r.Component].Kind == procfs.KindHeap
			if heap && f.Flags&uint64(procfs.FrameAnon) == 0 {
				t.Errorf("page %#x of the heap has flags %#x", r.Page+i, f.Flags)
			}
		}
	}
	if want := s.Processes[0].Usage.RSS / s.Machine.PageSize; resident != want {
		t.Errorf("%d pages; the RSS has %d", resident, want)
	}
}

// exclusivePages reads pagemap once more: which pages are present, and whether
// the kernel calls them exclusively mapped.
func exclusivePages(t *testing.T, pid int) map[uint64]bool {
	t.Helper()
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	m, err := p.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	out, size := make(map[uint64]bool), uint64(os.Getpagesize())
	err = p.Maps(func(v *procfs.VMA) {
		entries := make([]procfs.PageEntry, v.Size()/size)
		n, err := m.Read(v.Start, entries)
		if err != nil {
			return // a mapping of the kernel's beyond the address space
		}
		for i, e := range entries[:n] {
			if e&procfs.EntryPresent != 0 {
				out[v.Start/size+uint64(i)] = e&procfs.EntryExclusive != 0
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPIDReuse: in a PID namespace of its own, a process gets the PID of one
// that has ended. They are two.
func TestPIDReuse(t *testing.T) {
	cmd := role("namespace", "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var ids []ID
	if err := json.Unmarshal(out, &ids); err != nil || len(ids) != 2 {
		t.Fatalf("%s: %v", out, err)
	}
	if ids[0].PID != ids[1].PID || ids[0].StartTime >= ids[1].StartTime {
		t.Errorf("%+v", ids)
	}
}

// reusePID is the first process of a PID namespace. It prints what snapshots
// call two processes of one PID.
func reusePID() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	var ids []ID
	for pid := 0; len(ids) < 2; {
		if pid != 0 {
			// Start times count in ticks of 10 ms: wait for one that is another.
			for now := ids[0].StartTime; now <= ids[0].StartTime; {
				var err error
				if now, err = startOfNew(); err != nil {
					return err
				}
			}
			if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o644); err != nil {
				return err
			}
		}
		id, err := snapshotOfNew()
		if err != nil {
			return err
		}
		if pid == 0 || id.PID == pid {
			ids, pid = append(ids, id), id.PID
		}
	}
	return json.NewEncoder(os.Stdout).Encode(ids)
}

// snapshotOfNew starts a process, takes a snapshot of it, and ends it.
func snapshotOfNew() (ID, error) {
	cmd := role("sleeper", "")
	if _, err := cmd.StdinPipe(); err != nil {
		return ID{}, err
	}
	if err := cmd.Start(); err != nil {
		return ID{}, err
	}
	s, err := Take(context.Background(), Options{PIDs: []int{cmd.Process.Pid}})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		return ID{}, err
	}
	if len(s.Processes) != 1 {
		return ID{}, fmt.Errorf("the snapshot has %d processes: %s", len(s.Processes), strings.Join(s.Warnings, ", "))
	}
	return s.Processes[0].ID, nil
}

func startOfNew() (uint64, error) {
	id, err := snapshotOfNew()
	return id.StartTime, err
}
