//go:build integration && services

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/render"
)

// What a program maps outside of its allocator is on the live screen, as it
// says itself, beside its processes and, where there is room, for each call site.
func TestTraceInATerminalShowsRegions(t *testing.T) {
	t.Parallel()
	c := program(t, "regions")
	x := startInTerminal(t, fmt.Sprintf("-p %d -i 200ms --top 0", c.cmd.Process.Pid), "NO_COLOR=1")
	x.until(fmt.Sprintf(`regions \(pid %d\)  traced`, c.cmd.Process.Pid))
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	want := c.regions(t)
	lines := x.until(`(?s)2 processes  traced.*\n *PID +RSS.*\nMAPPED OUTSIDE THE ALLOCATOR  \d+ of \d+ call sites\n *PID REGION .*\nLosses: nothing lost`)
	if len(lines) != 24 {
		t.Errorf("%d lines on 24", len(lines))
	}
	if screen := x.run("capture-pane", "-p", "-e"); regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|9[0-7]|4[0-7])m`).MatchString(screen) {
		t.Errorf("colour with NO_COLOR:\n%q", screen)
	}
	x.run("resize-window", "-x", "100", "-y", "90")
	for _, w := range want.Regions {
		if w.LiveCount == 0 {
			continue
		}
		resident := `\S+`
		if w.ResidentBytes >= 0 {
			resident = regexp.QuoteMeta(render.ShortSize(uint64(w.ResidentBytes)))
		}
		x.until(fmt.Sprintf(`(?m)^ *%d +#\d+ +%s +%s +%d +\S+ +%d +%s +%s\b`, want.PID, resident,
			regexp.QuoteMeta(render.ShortSize(w.LiveBytes)), w.LiveCount, w.MappedCount, w.Kind, w.Function))
	}
	x.keys("C-c")
	if text := strings.Join(x.until(`ended 0`), "\n"); !strings.Contains(text, "Losses: nothing lost") {
		t.Errorf("the last Report is not on the terminal:\n%s", text)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// Pools are on the live screen as the program made them (see
// testdata/programs/layer_apr.c): what lives in those of a name, in how many.
func TestTraceInATerminalShowsPools(t *testing.T) {
	t.Parallel()
	c := program(t, "layer_apr")
	x := startInTerminal(t, fmt.Sprintf("-p %d -i 200ms --layer apr", c.cmd.Process.Pid))
	x.until(`(?s)layer_apr \(pid .*Losses: nothing lost`)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	x.until(`(?m)^POOLS( |$)`)
	x.run("resize-window", "-x", "80", "-y", "40")
	x.until(`(?m)^ *LIVE COUNT POOLS NAME$`)
	for _, pool := range []struct {
		name                string
		pools, count, bytes uint64
	}{
		{"request", 1, 10, 3000},
		{"outer", 1, 5, 5 * 1024},
		{"of main", 1, 8 + 8 + 6 + 1, 8*300 + 6*13 + 16},
	} {
		x.until(fmt.Sprintf(`(?m)^ *%s +%d +%d %s$`, regexp.QuoteMeta(render.ShortSize(pool.bytes)), pool.count, pool.pools, pool.name))
	}
	x.keys("C-c")
	x.until(`ended 0`)
	if err := c.end(); err != nil {
		t.Error(err)
	}
}
