package procfs

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTaskStatOfThisThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fs, err := New(DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	tid := unix.Gettid()
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
		t.Fatal(err)
	}
	st, err := p.TaskStat(tid)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
		t.Fatal(err)
	}
	if st.PID != tid || st.Processor < 0 {
		t.Errorf("thread %d on CPU %d, want thread %d", st.PID, st.Processor, tid)
	}
	if st.MinFlt < uint64(before.Minflt) || st.MinFlt > uint64(after.Minflt) {
		t.Errorf("%d minor faults, getrusage has %d before and %d after", st.MinFlt, before.Minflt, after.Minflt)
	}
	if _, err := p.TaskStat(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("thread that does not exist: %v", err)
	}
}

func TestParseTaskStat(t *testing.T) {
	const line = "77 (a) b) S 1 77 77 0 -1 4194304 12 0 3 0 4 5 0 0 20 0 2 0 100 4096 1 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 6 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	st, err := parseTaskStat([]byte(line))
	if err != nil || st.Processor != 6 || st.MinFlt != 12 || st.MajFlt != 3 || st.Comm != "a) b" {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := parseTaskStat([]byte("77 (a) S 1 77 77 0 -1 4194304 12 0 3 0 4 5 0 0 20 0 2 0 100 4096 1\n")); !errors.Is(err, ErrFormat) {
		t.Errorf("a line that is cut short: %v", err)
	}
}

func TestTaskRan(t *testing.T) {
	ran, err := parseTaskRan([]byte("Name:\tS: R\nState:\tS (sleeping)\nThreads:\t1\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"))
	if err != nil || ran != (TaskRan{'S', 695}) || !ran.Waits() {
		t.Errorf("%+v, %v", ran, err)
	}
	for _, text := range []string{"", "State:\n", "State:\tR (running)\n", "State:\tR (running)\nvoluntary_ctxt_switches:\tx\nnonvoluntary_ctxt_switches:\t1\n"} {
		if ran, err := parseTaskRan([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, ran)
		}
	}
}
