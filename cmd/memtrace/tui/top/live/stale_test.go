package live

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
)

// What was read before a process's memory changed says so; where nothing changed, PSS is not above the RSS of counters that lag.
func TestFiguresOfAnEarlierWalkAreStale(t *testing.T) {
	eachKernel(t, func(t *testing.T, tree string) {
		proc := t.TempDir()
		if err := os.CopyFS(proc, os.DirFS(tree+"/proc")); err != nil {
			t.Fatal(err)
		}
		page := int64(os.Getpagesize())
		put := func(pages, faults int64) {
			t.Helper()
			dir := filepath.Join(proc, "4242")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"stat":    fmt.Sprintf("4242 (shrinks) S 1 0 0 0 0 0 %d 0 0 0 0 0 0 0 20 0 1 0 5 819200000 %d 0 0\n", faults, pages),
				"statm":   fmt.Sprintf("20000 %d 1 1 0 1 0\n", pages),
				"cmdline": "shrinks\x00",
				"smaps_rollup": fmt.Sprintf("400000-7fff00000000 ---p 00000000 00:00 0 [rollup]\nRss: %d kB\nPss: %[1]d kB\nPrivate_Dirty: %[1]d kB\nSwap: 0 kB\n",
					1000*page/1024),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(990, 1) // the counters lag behind the walk's 1000 pages
		// A walk takes longer than a millionth of a second, so the next one is not allowed for a while.
		s := open(t, Options{Proc: proc, Sys: tree + "/sys", StallBudget: time.Microsecond})
		for range 2 {
			p := processOf(t, read(t, s, top.Want{View: top.Processes}), 4242)
			if p.PSS.N != 1000*page || p.PSS.Stale || p.RSS.N < p.PSS.N || p.Behind {
				t.Errorf("nothing has changed: PSS %+v, RSS %+v, behind %v", p.PSS, p.RSS, p.Behind)
			}
		}
		put(400, 2)
		p := processOf(t, read(t, s, top.Want{View: top.Processes}), 4242)
		if !p.Behind || !p.PSS.Stale || !p.USS.Stale || !p.Swap.Stale || p.RSS.N != 400*page || p.RSS.Stale {
			t.Errorf("it has shrunk: PSS %+v, USS %+v, swap %+v, RSS %+v, behind %v", p.PSS, p.USS, p.Swap, p.RSS, p.Behind)
		}
	})
}
