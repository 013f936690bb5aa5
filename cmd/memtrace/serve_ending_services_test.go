//go:build integration && services

package main

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An agent that is killed leaves the service as it was, no tracer, and a recording that can be read; the next one goes on
// beside it.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	const name = "leaky_killed"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	config, data := "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data")
	a := startGrowthAgent(t, config, data)
	a.growsBy(t, "shop", 8<<10)
	first := a.recordings(t, "shop")[0].File
	tracers := tracersOf(t, a.cmd.Process.Pid)
	if len(tracers) != 1 {
		t.Fatalf("tracers %v", tracers)
	}
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.cmd.Wait()
	eventually(t, "the tracer ends", func() bool { return syscall.Kill(tracers[0], 0) != nil })
	recordingHolds(t, first, 8<<10)
	if !endedInOrder(t, first) {
		t.Error("the tracer of an agent that was killed has not ended its recording in good order")
	}
	next := startGrowthAgent(t, config, data)
	next.growsBy(t, "shop", 8<<10)
	if all := next.recordings(t, "shop"); len(all) != 2 || all[0].File != first {
		t.Errorf("recordings %+v", all)
	}

	// A tracer that is killed has a successor, and takes nothing along of what it has written.
	recordingHolds(t, next.recordings(t, "shop")[1].File, 1)
	tracers = tracersOf(t, next.cmd.Process.Pid)
	if err := syscall.Kill(tracers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another tracer runs", func() bool { g := next.growth(t, "shop"); return g.Watch.Starts == 2 && g.Watch.Processes == 1 })
	next.growsBy(t, "shop", 8<<10)
	for i, s := range next.recordings(t, "shop") {
		recordingHolds(t, s.File, 1)
		if ended := endedInOrder(t, s.File); ended != (i == 0) { // the next was killed, and the last goes on
			t.Errorf("recording %d was ended in good order: %v", i, ended)
		}
	}
	next.end(t)
	service.end(t)
}

// systemd gives SIGTERM to all processes of a unit at once, and to those that are left when the agent has crashed. The
// recordings are ended in good order all the same, and nothing is said to have failed.
func TestServeStoppedBySystemd(t *testing.T) {
	t.Parallel()
	for what, crashed := range map[string]bool{"stopped": false, "crashed": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "leaky_" + what
			service := startLeaky(t, copyAs(t, "slow_leak", name))
			a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data"))
			a.growsBy(t, "shop", 8<<10)
			file, tracers := a.recordings(t, "shop")[0].File, tracersOf(t, a.cmd.Process.Pid)
			if crashed {
				if err := a.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			for _, pid := range tracers {
				if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
			}
			if crashed {
				_ = a.cmd.Wait()
			} else {
				a.end(t)
			}
			eventually(t, "the tracer ends", func() bool { return syscall.Kill(tracers[0], 0) != nil })
			if !endedInOrder(t, file) {
				t.Error("the recording was not ended in good order")
			}
			if strings.Contains(a.said.String(), "the tracer failed") {
				t.Errorf("%s", a.said)
			}
			service.end(t)
		})
	}
}
