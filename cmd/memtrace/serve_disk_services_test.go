//go:build integration && services

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// With a disk that is full, from the start or at some time, growth is watched all the same, and a metric says that nothing is
// recorded.
func TestServeOnAFullDisk(t *testing.T) {
	t.Parallel()
	for what, size := range map[string]int64{"from the start": 1 << 20, "later": 140 << 20} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, size)
			name := "leaky_full_" + what[:1]
			service := startLeaky(t, copyAs(t, "slow_leak", name))
			a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(disk, "data"))
			a.growsBy(t, "shop", 8<<10)
			if what == "later" {
				if g := a.growth(t, "shop"); g.Watch.Recording == "" || g.Watch.HistoryFails != 0 {
					t.Errorf("%+v", g.Watch)
				}
				fill(t, disk)
			}
			eventually(t, "the agent says that nothing is recorded", func() bool { return a.growth(t, "shop").Watch.HistoryFails == 1 })
			metrics := fetchText(t, a.address+"/metrics")
			for _, want := range []string{`memtrace_history_recording{service="shop"} 0`, `memtrace_history_errors_total{service="shop"} 1`, `memtrace_watch_up{service="shop"} 1`} {
				if !strings.Contains(metrics, want) {
					t.Errorf("there is no %s in %s", want, metrics)
				}
			}
			grown := a.growth(t, "shop").Sites[0].Grown
			a.growsBy(t, "shop", grown+8<<10)
			if g := a.growth(t, "shop"); !strings.Contains(g.Watch.Problem, "nothing is recorded") || g.Watch.Recording != "" || g.Watch.Starts != 1 {
				t.Errorf("%+v", g.Watch)
			}
			a.end(t)
			service.end(t)
		})
	}
}

// smallDisk is a folder of so many bytes.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// fill leaves no byte free.
func fill(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Statfs_t
	if err := syscall.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize); err != nil {
		t.Fatal(err)
	}
}
