//go:build integration

package reach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/procfs/ptraced"
)

// TestStopOfAStarvedThread: a thread that would stop if it had a processor is waited for longer than one that can't.
// Its control group gives it 20 ms of each second, as a container may have it.
func TestStopOfAStarvedThread(t *testing.T) {
	group := throttledGroup(t)
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // before its group is removed
	pid := cmd.Process.Pid
	if err := os.WriteFile(group+"/cgroup.procs", fmt.Append(nil, pid), 0o644); err != nil {
		t.Fatal(err)
	}
	awaitThrottle(t, pid)
	ownthread.Do(func() {
		thread, err := Stop(pid)
		if err != nil {
			t.Errorf("stopping a thread without a processor, in the state %c: %v", ptraced.State(pid), err)
			return
		}
		Release(thread)
	})
}

// throttledGroup is a control group that gets next to nothing of a processor, of whichever version the machine has the
// processor controller in. A machine without one can't be tested on.
func throttledGroup(t *testing.T) string {
	t.Helper()
	const v1, v2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"
	root, settings := v1, []string{"cpu.cfs_period_us", "1000000", "cpu.cfs_quota_us", "20000"}
	controllers, _ := os.ReadFile(v2 + "/cgroup.controllers") // there is none of version 1
	if slices.Contains(strings.Fields(string(controllers)), "cpu") {
		root, settings = v2, []string{"cpu.max", "20000 1000000"}
		if err := os.WriteFile(v2+"/cgroup.subtree_control", []byte("+cpu"), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if _, err := os.Stat(v1 + "/cgroup.procs"); err != nil {
		t.Fatalf("there is no processor controller (%v): mount -t cgroup -o cpu cgroup %s", err, v1)
	}
	group, err := os.MkdirTemp(root, "memtrace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	for ; len(settings) > 0; settings = settings[2:] {
		if err := os.WriteFile(filepath.Join(group, settings[0]), []byte(settings[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return group
}

// awaitThrottle waits until a thread has just had its turn, and gets no other one soon.
func awaitThrottle(t *testing.T, tid int) {
	t.Helper()
	ran := func() (ns uint64) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", tid))
		if _, scanErr := fmt.Sscan(string(text), &ns); err != nil || scanErr != nil {
			t.Fatalf("how long it ran: %v, %v", err, scanErr)
		}
		return ns
	}
	const idle = 20 * time.Millisecond
	since, turns := time.Now(), 0
	for last := ran(); turns == 0 || time.Since(since) < idle; time.Sleep(time.Millisecond) {
		if now := ran(); now != last {
			last, since, turns = now, time.Now(), turns+1
		}
	}
}
