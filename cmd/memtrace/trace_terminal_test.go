//go:build integration && services

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
)

var colourOnTerminal = regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|9[0-7]|4[0-7])m`)

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
	x.keys("5")
	lines := x.until(`(?s)2 processes  traced.*nothing lost.*\n *PID +RSS.*`)
	if len(lines) != 24 {
		t.Errorf("%d lines on 24", len(lines))
	}
	if screen := x.run("capture-pane", "-p", "-e"); colourOnTerminal.MatchString(screen) {
		t.Errorf("colour with NO_COLOR:\n%q", screen)
	}
	x.run("resize-window", "-x", "100", "-y", "90")
	x.keys("m")
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
	x.until(`layer_apr \(pid .*nothing lost`)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	x.keys("p")
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

// knownSites is every_function, traced in a terminal, after it has done its work: its figures stand still.
func knownSites(t *testing.T, size [2]int, flags string, env ...string) (*child, *terminal) {
	t.Helper()
	c := program(t, "every_function")
	x := startInTerminal(t, fmt.Sprintf("-p %d -i 200ms --names short %s", c.cmd.Process.Pid, flags), env...)
	x.run("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
	x.until(fmt.Sprintf(`every_function \(pid %d\)`, c.cmd.Process.Pid))
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	return c, x
}

// liveOf is what the program says that one of its functions holds.
func (c *child) liveOf(t *testing.T, function string) (bytes, count uint64) {
	t.Helper()
	sites, _ := c.answer["sites"].([]any)
	for _, s := range sites {
		if site, _ := s.(map[string]any); site["function"] == function {
			return uint64(site["live_bytes"].(float64)), uint64(site["live_count"].(float64))
		}
	}
	t.Fatalf("the program says nothing of %s", function)
	return 0, 0
}

// TestTraceScreenAnswersEachKey: on terminals of four sizes, the screen shows what the program says of itself, and
// each key does what the help page says.
func TestTraceScreenAnswersEachKey(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{40, 15}, {80, 24}, {120, 36}, {200, 50}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			c, x := knownSites(t, size, "")
			c.seesFigures(t, x, size)
			x.pressArranging()
			x.pressViews(size)
			x.keys("q")
			x.until(`ended 0`)
			text := x.run("capture-pane", "-p", "-S", "-")
			if !strings.Contains(text, "before\n") || !strings.Contains(text, "by_malloc at ") || !strings.Contains(text, "Losses: nothing lost") {
				t.Errorf("the result is not in the scrollback:\n%s", text)
			}
			if state := strings.TrimSpace(x.run("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}")); state != "0 1 1" {
				t.Errorf("alternate screen, cursor, wrap afterwards: %q", state)
			}
			if err := c.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// seesFigures compares figures on the screen with what the program says, by function: the calls of one
// function are sites of their own.
func (c *child) seesFigures(t *testing.T, x *terminal, size [2]int) {
	t.Helper()
	x.keys("g")
	sized := render.ShortSize
	if size[0] >= 110 {
		sized = render.Size
	}
	for _, function := range []string{"by_malloc", "by_posix_memalign", "by_realloc"} {
		bytes, count := c.liveOf(t, function)
		row := fmt.Sprintf(`(?m)^ *%s +%d .*\b%s$`, regexp.QuoteMeta(sized(bytes)), count, function)
		if size[0] < 80 {
			row = fmt.Sprintf(`(?m)^ *%s .*\b%s$`, regexp.QuoteMeta(sized(bytes)), function)
		}
		x.until(row)
	}
	lines := x.until(`(?m)^RSS \d+\.\d[KMG] = `)
	if len(lines) != size[1] {
		t.Errorf("%d lines on %d", len(lines), size[1])
	}
	if size[1] >= 24 {
		x.until(fmt.Sprintf(`(?m)^Heap %s live in %d blocks`, regexp.QuoteMeta(render.Size(c.total(t, "live_bytes"))), c.total(t, "live_count")))
	}
}

// pressArranging tries the keys that choose rows and order them.
func (x *terminal) pressArranging() {
	x.keys("/")
	x.until(`Filter: █`)
	x.keys("-l", "memalign")
	x.until(`Filter: memalign█`)
	x.keys("Enter")
	x.untilNot(`by_malloc`)
	x.keys("Escape")
	x.until(`by_malloc`)
	x.keys("r") // those that hold nothing come first
	x.until(`(?m)^[^\n]*LIVE[^\n]*\n *0[ B]`)
	x.keys("r")
	x.until(`(?m)^[^\n]*LIVE[^\n]*\n[^\n]*by_realloc`)
	x.keys("s", "s", "s") // growth, resident, count
	x.until(`(?m)^[^\n]*LIVE[^\n]*\n[^\n]*by_realloc`)
	x.keys("g", "g", "g") // caller, file, module
	x.until(`(?s)MODULE.*every_function`)
	x.keys("Enter") // the module's sites
	x.until(`(?s)SITE +LIVE.*by_`)
	x.keys("Escape")
	x.until(`(?s)MODULE.*every_function`)
	x.keys("g", "g") // size, site
	x.until(`SITE +LIVE`)
}

// pressViews tries the keys that show something else, and those that move.
func (x *terminal) pressViews(size [2]int) {
	x.keys("Down", "Up", "j", "k", "PageDown", "PageUp", "End", "Home", "Enter")
	x.until(`(?s)Allocated \d+ block.*Esc back`)
	x.keys("PageDown", "End")
	x.until(`(?s)up to +\d.*Esc back`)
	x.keys("Escape")
	x.until(`q ends  h help`)
	x.keys("h")
	x.until(`end the trace`)
	x.keys("Escape")
	x.until(`q ends  h help`)
	x.keys("Space")
	x.until(`FROZEN`)
	x.keys("Space")
	x.untilNot(`FROZEN`)
	x.keys("l")
	x.until(`No site grows|GROWS`)
	x.keys("m")
	x.until(`Nothing mapped|REGION`)
	x.keys("p")
	x.until(`No pools`)
	x.keys("5")
	x.until(`(?m)^ *PID .*PROCESS`)
	x.keys("n")
	x.until(`Losses: nothing lost`)
	x.keys("Tab", "Tab") // threads, and round
	x.until(`SITE +LIVE`)
	x.keys("t")
	x.until(`(?m)ALLOCATED.*THREAD$`)
	x.keys("Escape")
	x.until(`SITE +LIVE`)
	x.keys("+")
	if size[0] >= 80 {
		x.until(`every 500ms`)
	}
	x.keys("-", "-")
	if size[0] >= 80 {
		x.until(`every 250ms`)
	}
}

// untilNot waits until the screen no longer matches a pattern.
func (x *terminal) untilNot(pattern string) {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	var screen string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if screen = x.run("capture-pane", "-p"); !re.MatchString(screen) {
			return
		}
	}
	x.t.Fatalf("the terminal never stopped showing %q; it shows:\n%s", pattern, screen)
}

// Whatever ends a trace leaves its result on the terminal: the duration, the program's end, Ctrl-C.
func TestTraceScreenLeavesItsResult(t *testing.T) {
	t.Parallel()
	t.Run("duration", func(t *testing.T) {
		t.Parallel()
		s := startLeaky(t, testProgram("slow_leak")) // allocates all the time: nobody has to be ready by a certain one
		x := startInTerminal(t, fmt.Sprintf("-p %d -i 200ms --names short -d 3", s.cmd.Process.Pid))
		x.showsResultOf("remember")
		s.end(t)
	})
	for name, end := range map[string]func(*child, *terminal) error{
		"end":       func(c *child, _ *terminal) error { return c.end() },
		"interrupt": func(_ *child, x *terminal) error { x.keys("C-c"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, x := knownSites(t, [2]int{80, 24}, "")
			x.until(`by_malloc`)
			if err := end(c, x); err != nil {
				t.Error(err)
			}
			x.showsResultOf("by_malloc")
			if name != "end" {
				if err := c.end(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// showsResultOf waits for memtrace's end, and looks for a function in what it leaves.
func (x *terminal) showsResultOf(function string) {
	x.t.Helper()
	x.until(`ended 0`)
	text := x.run("capture-pane", "-p", "-S", "-")
	if !strings.Contains(text, function+" at ") || !strings.Contains(text, "Losses: nothing lost") {
		x.t.Errorf("the result is not on the terminal:\n%s", text)
	}
}

// A terminal that is closed ends the trace; the program goes on unharmed.
func TestTraceEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	c, x := knownSites(t, [2]int{80, 24}, "")
	x.until(`by_malloc`)
	shell := strings.TrimSpace(x.run("display-message", "-p", "#{pane_pid}"))
	out, err := exec.Command("pgrep", "-P", shell).Output()
	if err != nil {
		t.Fatal(err)
	}
	x.run("kill-pane")
	memtrace := "/proc/" + strings.TrimSpace(string(out))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(memtrace); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("memtrace goes on without a terminal")
		}
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// Colour comes unless NO_COLOR is set; TERM=dumb gets text, one interval after the other, on its own screen.
func TestTraceScreenColours(t *testing.T) {
	t.Parallel()
	_, x := knownSites(t, [2]int{80, 24}, "")
	x.until(`by_malloc`)
	if screen := x.run("capture-pane", "-p", "-e"); !colourOnTerminal.MatchString(screen) {
		t.Errorf("no colour:\n%q", screen)
	}
	_, x = knownSites(t, [2]int{80, 24}, "", "NO_COLOR=1")
	x.until(`by_malloc`)
	if screen := x.run("capture-pane", "-p", "-e"); colourOnTerminal.MatchString(screen) {
		t.Errorf("colour with NO_COLOR:\n%q", screen)
	}
	c := program(t, "every_function")
	x = startTerminal(t, nil, "sh", "-c", fmt.Sprintf("TERM=dumb %s -p %d -i 200ms", os.Args[0], c.cmd.Process.Pid))
	x.until(`(?s)Losses: nothing lost.*Losses: nothing lost`)
	if state := strings.TrimSpace(x.run("display-message", "-p", "#{alternate_on}")); state != "0" {
		t.Error("TERM=dumb has the alternate screen")
	}
}

// With -q a terminal has the result alone, though Reports of intervals are asked for.
func TestTraceQuietInATerminal(t *testing.T) {
	t.Parallel()
	c := program(t, "every_function")
	x := startInTerminal(t, fmt.Sprintf("-p %d -i 200ms -q", c.cmd.Process.Pid))
	awaitTraced(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	x.until(`ended 0`)
	if text := x.run("capture-pane", "-p", "-S", "-"); strings.Count(text, "Losses: nothing lost") != 1 || !strings.Contains(text, "by_malloc at ") {
		t.Errorf("there is not one result on the terminal:\n%s", text)
	}
}

// By thread: who allocates, as the program does it (see testdata/programs/cross_thread_free.c): one thread allocates all blocks.
func TestTraceInATerminalShowsThreads(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{40, 15}, {80, 24}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			c := program(t, "cross_thread_free", "5000")
			x := startInTerminal(t, fmt.Sprintf("-p %d -i 200ms", c.cmd.Process.Pid))
			x.run("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
			x.until(fmt.Sprintf(`cross_thread_free \(pid %d\)|pid %[1]d`, c.cmd.Process.Pid))
			x.keys("t")
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			bytes := regexp.QuoteMeta(render.ShortSize(c.total(t, "alloc_bytes")))
			row := fmt.Sprintf(`(?m)^ *%s +5000 +\S+/s +(\d+) (cross_thread|\?)`, bytes) // it has ended, maybe before its name was read
			if size[0] < 80 {
				row = fmt.Sprintf(`(?m)^ *%s .*(cross_|\?)`, bytes)
			}
			lines := x.until(row)
			if m := regexp.MustCompile(row).FindStringSubmatch(strings.Join(lines, "\n")); size[0] >= 80 && m[1] == fmt.Sprint(c.cmd.Process.Pid) {
				t.Errorf("the blocks are the first thread's: %q", m[0])
			}
			x.keys("q")
			x.until(`ended 0`)
			if err := c.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
