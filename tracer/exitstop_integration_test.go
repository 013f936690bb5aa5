//go:build integration

package tracer

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A process is stopped as it calls exit whether or not its probes were taken off since, for a while or still.
func TestStopsOutlastAPause(t *testing.T) {
	t.Parallel()
	for _, m := range rungs(t) {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/resumed=%v", m, resumed), func(t *testing.T) {
				tr, err := New(Config{Mechanism: m, StackDepth: 4, Sampling: true})
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				p := start(t, nil, "temporary")
				pid := p.cmd.Process.Pid
				objects := discover(t, pid)
				for _, err := range []error{tr.Attach(pid, objects), tr.StopAtExit(pid, objects), tr.Pause()} {
					if err != nil {
						t.Fatal(err)
					}
				}
				if resumed {
					if err := tr.Resume(); err != nil {
						t.Fatal(err)
					}
				}
				p.answer()
				if !stoppedAtItsEnd(t, tr, p) {
					t.Error("it was not stopped as it called exit")
				}
				if err := p.cmd.Wait(); err != nil {
					t.Errorf("the traced program was harmed: %v", err)
				}
			})
		}
	}
}

// stoppedAtItsEnd lets a program end under ptrace, and says whether it got ExitSignal as it called exit. It is let go then.
func stoppedAtItsEnd(t *testing.T, tr *Tracer, p *target) bool {
	t.Helper()
	pid := p.cmd.Process.Pid
	runtime.LockOSThread() // ptrace is the thread's
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		t.Fatal(err)
	}
	p.proceed()
	for {
		// WNOWAIT leaves an end for Wait.
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		const exited, killed, dumped = 1, 2, 3
		if info.Code == exited || info.Code == killed || info.Code == dumped {
			return false
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
			t.Fatal(err)
		}
		if status.StopSignal() == ExitSignal && tr.StoppedAtExit(pid) {
			if err := unix.PtraceDetach(pid); err != nil {
				t.Fatal(err)
			}
			return true
		}
		if err := unix.PtraceCont(pid, int(status.StopSignal())); err != nil {
			t.Fatal(err)
		}
	}
}
