package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

// proc is a tree that looks like /proc, with figures that a test sets.
type proc struct {
	t   *testing.T
	dir string
}

func newProc(t *testing.T) *proc {
	p := &proc{t, t.TempDir()}
	p.memory(1000, 1000, 1000, 1000)
	return p
}

func (p *proc) write(name, format string, args ...any) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// memory sets meminfo, in KiB.
func (p *proc) memory(total, available, swapTotal, swapFree int) {
	p.write("meminfo", "MemTotal: %d kB\nMemFree: 1 kB\nMemAvailable: %d kB\nCached: 7 kB\nSwapTotal: %d kB\nSwapFree: %d kB\n",
		total, available, swapTotal, swapFree)
}

// process sets a process with so many KiB of PSS; its RSS counter is 3 pages.
func (p *proc) process(pid int, comm string, start, pss int) {
	dir := strconv.Itoa(pid)
	p.write(dir+"/stat", "%d (%s) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 %d 40960 3 0\n", pid, comm, start)
	p.write(dir+"/comm", "%s\n", comm)
	p.write(dir+"/smaps_rollup", "00400000-7ffc00000000 ---p 00000000 00:00 0    [rollup]\nRss: 99 kB\nPss: %d kB\nPrivate_Dirty: 5 kB\nSwap: 4 kB\n", pss)
}

func (p *proc) end(pid int) {
	if err := os.RemoveAll(filepath.Join(p.dir, strconv.Itoa(pid))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proc) open(text string, o Options) (*Watch, error) {
	p.t.Helper()
	conditions, err := threshold.ParseList(text)
	if err != nil {
		p.t.Fatal(err)
	}
	o.Proc, o.Sys = p.dir, p.dir
	w, err := New(conditions, o)
	if err == nil {
		p.t.Cleanup(func() { _ = w.Close() })
	}
	return w, err
}

func (p *proc) watch(text string, o Options) *Watch {
	p.t.Helper()
	w, err := p.open(text, o)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// check says what a check finds, in short: "crossed 90", "within 10", "unknown".
func check(w *Watch, now time.Time) string {
	var out []string
	for _, e := range w.Check(now) {
		text := e.State.String()
		if e.Err == nil {
			text += " " + strconv.FormatFloat(e.Figure, 'f', -1, 64)
		}
		if e.Crossing {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

var begin = time.Unix(1_700_000_000, 0)

// TestHysteresis: a figure about its limit makes one event, not one a look.
func TestHysteresis(t *testing.T) {
	p := newProc(t)
	w := p.watch("swap>80%", Options{Hysteresis: 0.05})
	for i, c := range []struct {
		free int
		want string
	}{
		{500, ""}, {200, ""}, {199, "crossed 80.1!"}, {201, ""}, {239, ""}, {198, ""}, {240, "within 76"}, {201, ""}, {100, "crossed 90!"},
	} {
		p.memory(1000, 1000, 1000, c.free)
		if got := check(w, begin); got != c.want {
			t.Errorf("look %d, %d free: %q, want %q", i, c.free, got, c.want)
		}
	}
	w = p.watch("mem.available<10%", Options{Hysteresis: 0.5})
	for i, c := range []struct {
		available int
		want      string
	}{{101, ""}, {99, "crossed 9.9!"}, {101, ""}, {149, ""}, {150, "within 15"}, {120, ""}} {
		p.memory(1000, c.available, 0, 0)
		if got := check(w, begin); got != c.want {
			t.Errorf("look %d, %d available: %q, want %q", i, c.available, got, c.want)
		}
	}
}

// TestUnknown: what cannot be read is an event, and not within its limit; what
// was crossed before is crossed after, without being told anew.
func TestUnknown(t *testing.T) {
	p := newProc(t)
	p.process(10, "redis", 1, 100)
	p.process(11, "redis", 1, 60)
	w := p.watch("pss(redis)>150KiB", Options{})
	steps := []struct {
		do   func()
		want string
	}{
		{func() {}, "crossed 163840!"},
		{func() { p.end(10); p.end(11) }, "unknown"},
		{func() {}, ""},
		{func() { p.process(10, "redis", 2, 200) }, "crossed 204800"},
		{func() { p.write("10/smaps_rollup", "nonsense") }, "unknown"},
		{func() { p.process(10, "redis", 2, 100) }, "within 102400"},
	}
	for i, s := range steps {
		s.do()
		if got := check(w, begin.Add(time.Duration(i)*time.Hour)); got != s.want {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
		if known := len(w.Unknown()) == 0; known == (i == 1 || i == 2 || i == 4) {
			t.Errorf("step %d: unknown: %v", i, w.Unknown())
		}
	}
}

// TestPIDIsOneProcess: a PID that is given to another process is not that which was meant.
func TestPIDIsOneProcess(t *testing.T) {
	p := newProc(t)
	p.process(10, "a", 1, 100)
	w := p.watch("pss(pid:10)>1MiB", Options{})
	if got := check(w, begin); got != "" {
		t.Errorf("at first: %q", got)
	}
	p.process(10, "a", 2, 9999)
	if events := w.Check(begin.Add(time.Hour)); len(events) != 1 || !errors.Is(events[0].Err, ErrNoProcess) {
		t.Errorf("after reuse: %+v", events)
	}
	if _, err := p.open("rss(pid:99)>1", Options{}); !errors.Is(err, ErrNoProcess) {
		t.Errorf("no process: %v", err)
	}
}

// TestStallBudget: a walk is not repeated before the budget allows it.
func TestStallBudget(t *testing.T) {
	p := newProc(t)
	p.process(10, "a", 1, 100)
	w := p.watch("pss(a)>150KiB", Options{StallBudget: time.Nanosecond}) // a walk of 10 µs rests for hours
	if got := check(w, begin); got != "" {
		t.Errorf("at first: %q", got)
	}
	p.process(10, "a", 1, 200)
	if got := check(w, begin.Add(time.Second)); got != "" {
		t.Errorf("within the budget: %q", got)
	}
	if got := check(w, begin.Add(100*24*time.Hour)); got != "crossed 204800!" {
		t.Errorf("later: %q", got)
	}
}

// TestFigures reads each sort of figure once.
func TestFigures(t *testing.T) {
	p := newProc(t)
	page := os.Getpagesize()
	p.memory(1000, 400, 1000, 250)
	p.write("pressure/memory", "some avg10=12.50 avg60=2.00 avg300=3.00 total=4\nfull avg10=5.00 avg60=6.00 avg300=7.00 total=8\n")
	p.process(10, "a", 1, 100)
	p.process(11, "a-name-that-is-too-long"[:15], 1, 100)
	for text, want := range map[string]float64{
		"mem.available>0": 400 << 10, "mem.available>1%": 40, "mem.used>1%": 60, "mem.free>0": 1 << 10, "mem.cached>0": 7 << 10,
		"swap>1%": 75, "swap.free>0": 250 << 10, "psi.some.avg10>1": 12.5, "psi.full.avg300>1%": 7,
		"rss(a)>0": float64(3 * page), "uss(a)>0": 5 << 10, "swap(a)>0": 4 << 10, "swap(a)>0.1%": 0.4, "pss(pid:10)>1%": 10,
		"pss(a-name-that-is-too-long)>0": 100 << 10,
	} {
		events := p.watch(text, Options{}).Check(begin)
		if len(events) != 1 || events[0].Figure != want || !events[0].Crossing {
			t.Errorf("%s: %+v, want %v", text, events, want)
		}
	}
}

func TestBadConditions(t *testing.T) {
	p := newProc(t)
	for _, text := range []string{"foo>1", "mem>1", "mem.nope>1", "rss>1", "rss(pid:x)>1", "rss(pid:0)>1", "psi.some>1", "psi.any.avg10>1",
		"psi.some.avg11>1", "psi.some.avg10>1MiB", "swap>1s", "rss(a)>1MiB/s", "swap(a)>3s", "psi(x).some.avg10>1"} {
		conditions, err := threshold.ParseList(text)
		if err != nil {
			continue // refused even earlier
		}
		_, err = New(conditions, Options{Proc: p.dir, Sys: p.dir})
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestNothingToRead: without swap or pressure there is an error, not a 0.
func TestNothingToRead(t *testing.T) {
	p := newProc(t)
	p.memory(1000, 1000, 0, 0)
	for _, text := range []string{"swap>1", "swap>80%", "psi.some.avg10>1", "pss(nobody)>1"} {
		if events := p.watch(text, Options{}).Check(begin); len(events) != 1 || events[0].State != Unknown || events[0].Err == nil {
			t.Errorf("%s: %+v", text, events)
		}
	}
}
