//go:build integration

package tracer

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	ServeCalibration()
	os.Exit(m.Run())
}

func TestCalibration(t *testing.T) {
	for _, m := range rungs(t) {
		t.Run(string(m), func(t *testing.T) {
			tr, err := New(Config{Mechanism: m, StackDepth: 8, Sampling: true})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			began := time.Now()
			costs, err := tr.Calibrate()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v, in %v", costs, time.Since(began))
			// A trap takes some hundred ns on any machine, and an emulated one some ten µs.
			if costs.Entry < 20 || costs.Entry > 1e6 || costs.Return < costs.Entry || costs.Exit < 20 || costs.Exit > 1e6 {
				t.Errorf("a hit costs %+v ns", costs)
			}
			if h := tr.Hits(); h.Return < calibrationCalls*calibrationTurns || h.Recorded != 0 {
				t.Errorf("the child's calls were counted as %+v", h)
			}
			if got := tr.config.Interval; got != 0 {
				t.Errorf("the interval is %d afterwards", got)
			}
		})
	}
}

// A child that gets no processor for a while, as beside a service that an alert fires for, is waited for. The kernel
// ends one that takes more of it than any needs.
func TestStarvedCalibration(t *testing.T) {
	t.Parallel()
	c, err := startCalibration()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.median(askEntry); err != nil {
		t.Fatal(err)
	}
	pid := c.cmd.Process.Pid
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if want := fmt.Sprintf(`Max cpu time +%d +%[1]d +seconds`, calibrationLimit); err != nil || !regexp.MustCompile(want).Match(limits) {
		t.Errorf("%v: want %s in %s", err, want, limits)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(4*time.Second, func() { _ = unix.Kill(pid, unix.SIGCONT) })
	if _, err := c.median(askEntry); err != nil {
		t.Error(err)
	}
}

// A paused trace sees nothing, and sees all again after it.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	for _, m := range rungs(t) {
		t.Run(string(m), func(t *testing.T) {
			tr, err := New(Config{Mechanism: m, StackDepth: 4, Sampling: true})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			quiet, seen := start(t, nil, "churn", "3", "1", "0", "200"), start(t, nil, "churn", "3", "1", "0", "200")
			if err := tr.Attach(quiet.cmd.Process.Pid, discover(t, quiet.cmd.Process.Pid)); err != nil {
				t.Fatal(err)
			}
			if err := tr.Pause(); err != nil {
				t.Fatal(err)
			}
			if err := tr.Attach(seen.cmd.Process.Pid, discover(t, seen.cmd.Process.Pid)); err != nil {
				t.Fatal(err) // while paused: its probes come with Resume
			}
			quiet.answer()
			if h := tr.Hits(); h != (Hits{}) {
				t.Errorf("while paused: %+v", h)
			}
			if err := tr.Resume(); err != nil {
				t.Fatal(err)
			}
			a := seen.answer()
			if h := tr.Hits(); math.Abs(float64(h.Recorded+h.Predicted)-float64(a.Total.Alloc)) > 10 {
				t.Errorf("after it: %d calls recorded, the program says %d", h.Recorded+h.Predicted, a.Total.Alloc)
			}
			quiet.finish()
			seen.finish()
		})
	}
}
