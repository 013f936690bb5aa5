package procfs

import (
	"errors"
	"os"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

func openDir(t *testing.T) *Dir {
	t.Helper()
	fs, err := New(DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// TestUIDIsThatOfStatus: the owner of a process's directory is its effective
// user, also of one that may not be dumped, whose files are root's.
func TestUIDIsThatOfStatus(t *testing.T) {
	dir := openDir(t)
	pids := []int{os.Getpid(), startChild(t, "own").Process.Pid}
	if os.Geteuid() == 0 {
		pids = append(pids, startChildAs(t, "undumpable", "undumpable").Process.Pid)
	}
	for i, pid := range pids {
		p, err := dir.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		uid, err := p.UID()
		s, err2 := p.Status()
		if err != nil || err2 != nil || uid != s.Uid[1] || i == 2 && uid != 65534 {
			t.Errorf("process %d: user %d, %v; status: %v, %v", pid, uid, err, s.Uid, err2)
		}
		_ = p.Close()
	}
}

// TestKeptFilesAreOfOneProcess: what stays open is read anew each time, and is
// gone with its process.
func TestKeptFilesAreOfOneProcess(t *testing.T) {
	dir := openDir(t)
	cmd := startChild(t, "kept")
	p, err := dir.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	p.KeepOpen()
	before := len(proctest.OpenDescriptors())
	for _, want := range []byte("ST") {
		st, err := p.Stat()
		m, err2 := p.Statm()
		if err != nil || err2 != nil || (want == 'T') != (st.State == 'T') || m.Resident == 0 {
			t.Errorf("%+v, %v; %+v, %v; want state %c", st, err, m, err2, want)
		}
		if want == 'S' {
			proctest.Stop(t, p.PID())
		}
	}
	if n := len(proctest.OpenDescriptors()) - before; n != KeptDescriptors {
		t.Errorf("%d files stay open", n)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := p.Stat(); !errors.Is(err, ErrGone) {
		t.Errorf("stat of an ended process: %v", err)
	}
	if _, err := p.Statm(); !errors.Is(err, ErrGone) {
		t.Errorf("statm of an ended process: %v", err)
	}
	if uid, err := p.UID(); !errors.Is(err, ErrGone) {
		t.Errorf("user of an ended process: %d, %v", uid, err)
	}
}
