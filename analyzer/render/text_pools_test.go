package render

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Pools are listed by what they hold, and no more of them than a person reads;
// their names are the program's.
func TestPoolsInText(t *testing.T) {
	r := serviceReport()
	proc := &r.Processes[0]
	if strings.Contains(text(t, r, Options{Width: 100}), "Pools") {
		t.Error("there are pools in a Report without")
	}
	proc.Pools = []report.Pool{
		{Name: "CacheMemoryContext", Pools: 1, LiveBytes: 431 << 10, LiveCount: 1247},
		{Name: "evil\x1b[31m", Pools: 85, LiveBytes: 512, LiveCount: 1},
	}
	for range 20 {
		proc.Pools = append(proc.Pools, report.Pool{Name: "more"})
	}
	proc.PoolsMore = 3
	out := text(t, r, Options{})
	for _, want := range []string{"CacheMemoryContext 431 KiB in 1,247 blocks (1 pool)", "512 B in 1 block (85 pools)", "13 more names"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the text:\n%.2000s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a pool's name gets at the terminal")
	}
	for width := 20; width < 120; width++ {
		for _, line := range strings.Split(text(t, r, Options{Width: width}), "\n") {
			if columns(line) > width {
				t.Fatalf("at width %d: %q", width, line)
			}
		}
	}
}
