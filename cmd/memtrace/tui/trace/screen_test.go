package trace

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// service is a Report on a program that leaks at one site, caches at another, and churns at a third; each
// round leaks another 1,000 blocks.
func service(round uint64) *report.Report {
	frame := func(function, file string, line int) *report.Frame {
		return &report.Frame{Function: function, File: file, Line: line, Module: "/usr/bin/service"}
	}
	stack := func(leaf, file string) []*report.Frame {
		return []*report.Frame{frame("malloc", "malloc.c", 3), frame(leaf, file, 40), frame("serve", "main.c", 7), frame("main", "main.c", 9)}
	}
	r := &report.Report{
		WindowNS: round * 1e9,
		Processes: []report.Process{{
			ID: 1, PID: 4242, Comm: "service", Attached: true,
			Usage: report.Usage{RSS: 8 << 20, SampledNS: round * 1e9},
			RSSBy: report.RSSBy{HeapLive: 4<<20 + 300, HeapOverhead: 1<<20 - 300, HeapBeforeAttach: 1 << 20, AnonMmap: 512 << 10, File: 1 << 20, Stack: 132 << 10, Other: 380 << 10},
			Heap:  report.Heap{LiveBytes: 3<<20 + round*256000, LiveCount: 300 + round*1000, AllocCount: 1000 + round*2000, FreeCount: 5, CorrelatedNS: 1},
		}},
		Sites: []report.Site{
			{ID: 0, Process: 1, PID: 4242, Function: "cache_fill", FunctionFrame: 1, Stack: stack("cache_fill", "cache.c"), LiveBytes: 3 << 20, LiveCount: 300, AllocCount: 300, ResidentBytes: 2 << 20, PeakLiveBytes: 3 << 20, OldestNS: 9e9, SizeHistogram: [][2]uint64{{8192, 100}, {16384, 200}}},
			{ID: 1, Process: 1, PID: 4242, Function: "parse_header", FunctionFrame: 1, Stack: stack("parse_header", "parse.c"), LiveBytes: round * 256000, LiveCount: round * 1000, AllocCount: round * 1000, GrowthBytes: 256000, OldestNS: 5e9},
			{ID: 2, Process: 1, PID: 4242, Function: "render_page", FunctionFrame: 1, Stack: stack("render_page", "parse.c"), AllocCount: round * 1000, FreeCount: round * 1000, TemporaryCount: round * 1000},
		},
		Regions: []report.Region{{ID: 0, PID: 4242, Function: "ring_open", Kind: "memfd", LiveBytes: 1 << 20, LiveCount: 1, MappedCount: 1, Stack: stack("ring_open", "ring.c")}},
	}
	r.Processes[0].Pools = []report.Pool{{Name: "requests", Pools: 3, LiveBytes: 4096, LiveCount: 12}}
	return r
}

func growing(bytes, perSecond uint64) report.Leak {
	return report.Leak{Site: 1, Kind: "growing", Bytes: bytes, Count: 1000, Confidence: 0.99, Growing: true, GrowthPerSecond: perSecond, Why: "live bytes rose in 9 of 9 windows"}
}

var epoch = time.Date(2026, 11, 27, 13, 5, 0, 0, time.UTC)

// driver holds a Screen and its clock.
type driver struct {
	*Screen
	t   *testing.T
	now time.Time
}

func drive(t *testing.T, o Options) *driver {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	d := &driver{NewScreen(o), t, epoch}
	d.Show(service(1), d.now, 0)
	return d
}

func (d *driver) keys(names ...string) {
	for _, name := range names {
		text := ""
		if len([]rune(name)) == 1 {
			text = name
		}
		d.Key(name, text)
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (d *driver) lines() []string {
	var out []string
	for _, line := range d.Lines(d.now) {
		out = append(out, strings.TrimRight(sgr.ReplaceAllString(line, ""), " "))
	}
	return out
}

func (d *driver) text() string { return strings.Join(d.lines(), "\n") }

func (d *driver) want(what string, parts ...string) {
	d.t.Helper()
	for _, part := range parts {
		if !strings.Contains(d.text(), part) {
			d.t.Errorf("%s: the screen lacks %q:\n%s", what, part, d.text())
		}
	}
}

func (d *driver) lacks(what string, parts ...string) {
	d.t.Helper()
	for _, part := range parts {
		if strings.Contains(d.text(), part) {
			d.t.Errorf("%s: the screen has %q:\n%s", what, part, d.text())
		}
	}
}

// functions are those of the rows of the sites' table, from the top.
func (d *driver) functions() (names []string) {
	for _, line := range d.lines() {
		if m := regexp.MustCompile(`^ *#\d+ .* (cache_fill|parse_header|render_page)\b`).FindStringSubmatch(line); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// Every frame fits its terminal and has no control characters but its own styles, whatever the names.
func TestFramesFit(t *testing.T) {
	evil := "\x1b]0;owned\x07\x1b[2J\r\n\u202egnp.exe \xff日本語日本語 \x9b31m"
	r := service(3)
	r.Processes[0].Comm, r.Regions[0].Function, r.Processes[0].Pools[0].Name = evil, evil, evil
	for i := range r.Sites {
		r.Sites[i].Function, r.Sites[i].Stack = evil, []*report.Frame{{Function: evil, File: evil, Line: 3, Module: evil}}
	}
	r.Leaks = []report.Leak{growing(1000, 5)}
	r.Leaks[0].Why, r.Warnings = evil, []string{evil}
	unprobed := service(1)
	unprobed.Sites, unprobed.Processes[0].Unprobed = nil, true
	unprobed.Processes[0].Mappings = []report.Mapping{{Name: evil, Perms: "rw-p", ResidentBytes: 4096}}
	for _, r := range []*report.Report{r, unprobed, {}, {Processes: make([]report.Process, 3)}} {
		d := drive(t, Options{Colour: true})
		d.Show(r, d.now, 1)
		for _, size := range [][2]int{{80, 24}, {200, 50}, {120, 36}, {120, 10}, {60, 12}, {40, 15}, {40, 8}, {20, 5}, {10, 3}, {1, 1}} {
			d.Resize(size[0], size[1])
			for v := range views {
				d.keys(fmt.Sprint(int(v) + 1))
				for _, key := range []string{"end", "enter", "pgdown", "esc", "h", "end", "esc", "g", "g", "space", "space", "t", "/", evil, "esc", "s", "r", "q"} {
					d.Key(key, key)
					checkFrame(t, d, size[0], size[1])
				}
				d.ending = false
			}
		}
	}
}

func checkFrame(t *testing.T, d *driver, width, height int) {
	t.Helper()
	lines := d.Lines(d.now)
	if len(lines) != height {
		t.Fatalf("view %d at %d×%d has %d lines", d.view, width, height, len(lines))
	}
	for _, line := range lines {
		bare := sgr.ReplaceAllString(line, "")
		if n := render.Columns(bare); n > width {
			t.Fatalf("view %d at %d×%d: a line takes %d columns: %q", d.view, width, height, n, bare)
		}
		if i := strings.IndexFunc(bare, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b || r == 0x202e || r == 0xfffd }); i >= 0 {
			t.Fatalf("view %d has a control character: %q", d.view, bare)
		}
	}
}

// The parts of RSS add up on the screen as they stand, at every width and magnitude.
func TestRSSAddsUp(t *testing.T) {
	figures := regexp.MustCompile(`\d+\.\d`)
	for scale := uint64(1); scale < 1<<24; scale *= 7 {
		r := service(1)
		p := &r.Processes[0]
		p.RSSBy = report.RSSBy{HeapLive: 123457 * scale, HeapOverhead: 33331 * scale, HeapBeforeAttach: 7777 * scale, AnonMmap: 999 * scale, File: 54321 * scale, Stack: 4099 * scale, Shmem: 17 * scale, Other: scale}
		p.Usage.RSS = p.RSSBy.Sum()
		for width := 40; width <= 200; width++ {
			line := rssLine(r, width)
			all := figures.FindAllString(line, -1)
			sum, want := 0, -1
			for _, f := range all {
				n, err := strconv.Atoi(strings.Replace(f, ".", "", 1))
				if err != nil {
					t.Fatal(err)
				}
				if want < 0 {
					want = n
				} else {
					sum += n
				}
			}
			if len(all) < 3 || sum != want || render.Columns(line) > width {
				t.Fatalf("%d columns: %q: the parts are %d, RSS %d", width, line, sum, want)
			}
		}
	}
	if got, want := rssLine(service(1), 130), "RSS 8.0M = 4.0 live heap + 1.0 overhead + 1.0 heap before attach + 0.5 other anonymous + 1.0 file + 0.1 stack + 0.4 other"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// goProgram makes a Report one of a Go program whose own samples are read, and which calls no malloc.
func goProgram(r *report.Report) {
	r.Processes[0].Unprobed, r.Processes[0].Heap = true, report.Heap{}
	r.Processes[0].GoHeap = &report.GoHeap{Rate: 512 << 10, LiveBytes: 369 << 20, GrowthBytes: 3 << 20, Estimate: &report.Estimate{LiveBytesSE: 13 << 20}}
	r.Sites = []report.Site{{ID: 1 << 24, Process: 1, PID: 4242, Function: "main.remember", LiveBytes: 369 << 20, LiveCount: 5900, Basis: report.GoProfile}}
}

// The line of the heap says whose figures it has.
func TestHeapLine(t *testing.T) {
	for want, change := range map[string]func(*report.Report){
		"Heap 3.24 MiB live in 1,300 blocks, 3000 allocated, 5 freed, peak 0 B, resident 0 B": func(r *report.Report) {},
		"Go heap 369 MiB ± 13.0 MiB live by Go's own samples, grown by 3.00 MiB":              goProgram,
		"Heap not seen: no allocator that can be probed":                                      func(r *report.Report) { r.Processes[0].Unprobed = true },
		"Heap not looked into (--probes none): sites touched their pages first":               func(r *report.Report) { r.Basis = report.FirstTouchBasis },
	} {
		d := drive(t, Options{})
		d.Resize(100, 24)
		r := service(1)
		change(r)
		d.Show(r, d.now, 0)
		d.want("heap", want)
	}
}

// Where a name is too long, its figures stand all the same.
func TestVerdictKeepsItsFigures(t *testing.T) {
	r := service(1)
	r.Sites[1].Function = "node::NodeArrayBufferAllocator::Allocate(unsigned long, std::unique_ptr<node::Zone>)"
	r.Leaks = []report.Leak{growing(1<<20, 2048)}
	d := drive(t, Options{})
	d.Show(r, d.now, 0)
	d.want("80 columns", "Look at node::", ": +2.00 KiB/s, 1.00 MiB in 1,000 blocks")
}

// A help page that doesn't fit says that it goes on, and its end can be seen.
func TestPageSaysThatItGoesOn(t *testing.T) {
	d := drive(t, Options{})
	d.keys("h")
	d.want("80×24", "Esc back", "more lines")
	d.lacks("its end", "GROWS ")
	d.keys("end")
	d.want("its end", "GROWS ")
	d.lacks("its end", "more line")
	d.Resize(160, 45)
	d.keys("home")
	d.lacks("all of it", "more line")
	d.keys("esc")
	d.lacks("the table", "more line")
}

func TestWhatToLookAt(t *testing.T) {
	leak := func(kind string, bytes uint64) report.Leak {
		return report.Leak{Site: 0, Kind: kind, Bytes: bytes, Count: 7}
	}
	for _, c := range []struct {
		change func(*report.Report)
		want   string
		urgent bool
	}{
		{func(*report.Report) {}, "Nothing grows; cache_fill holds most: 3.00 MiB, 92% of the live heap", false},
		{func(r *report.Report) { r.Leaks = []report.Leak{growing(1<<20, 2048)} }, "Look at parse_header: +2.00 KiB/s, 1.00 MiB in 1,000 blocks", true},
		{func(r *report.Report) { r.Leaks = []report.Leak{growing(1<<20, 2048), leak("definite", 5)} }, "Look at cache_fill: definite leak of 5 B in 7 blocks", true},
		{func(r *report.Report) { r.Leaks = []report.Leak{leak("old", 5)} }, "Look at cache_fill: 5 B in 7 blocks outlive what it freed, and more come", true},
		{func(r *report.Report) {
			r.Processes[0].RSSBy.HeapBeforeAttach, r.Processes[0].Usage.RSS = 80<<20, 87<<20
		},
			"Nothing grows; most of RSS (92%) is heap before attach: allocated before memtrace came, so by whom is not known", false},
		{func(r *report.Report) { r.Sites, r.Processes[0].Unprobed = nil, true }, "Allocations are not seen; key m shows which mappings grow", false},
		{goProgram, "Nothing grows; main.remember holds most: 369 MiB, 100% of the live heap", false},
		{func(r *report.Report) { r.Basis, r.Leaks = report.FirstTouchBasis, []report.Leak{growing(4096, 2048)} },
			"Look at parse_header: +2.00 KiB/s, 4.00 KiB in 1,000 pages", true},
		{func(r *report.Report) { r.Basis, r.Sites = report.FirstTouchBasis, nil }, "No new page touched yet since the attach", false},
		{func(r *report.Report) { r.Basis = report.FirstTouchBasis }, "Nothing grows; cache_fill touched most first: 3.00 MiB", false},
		{func(r *report.Report) { r.Sites = nil }, "Nothing allocated yet since the attach", false},
	} {
		r := service(1)
		c.change(r)
		if got, urgent := verdict(r, 200); got != c.want || urgent != c.urgent {
			t.Errorf("got %q, %v; want %q, %v", got, urgent, c.want, c.urgent)
		}
	}
}

func TestSmallScreensShowWhatMatters(t *testing.T) {
	d := drive(t, Options{})
	r := service(2)
	r.Leaks = []report.Leak{growing(512000, 256000)}
	d.Show(r, d.now, 0)
	for _, size := range [][2]int{{40, 15}, {80, 24}, {120, 36}, {200, 50}} {
		d.Resize(size[0], size[1])
		d.want(fmt.Sprint(size), "service (pid 4242)", "RSS 8.0M = 4.0 ", "Look at parse_header: +250 KiB/s", "cache_fill", "LIVE", "q ends")
	}
	d.want("a wide screen", "TREND", "cache.c:40", "Heap 3.49 MiB live in 2,300 blocks", "2000/s now")
}

func TestSortingGroupingAndFilters(t *testing.T) {
	d := drive(t, Options{})
	check := func(what string, want ...string) {
		t.Helper()
		if got := d.functions(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("by live bytes", "cache_fill", "parse_header", "render_page")
	d.keys("r")
	check("reversed", "render_page", "parse_header", "cache_fill")
	d.want("reversed", "sort -live")
	d.keys("r", "s")
	check("by growth", "parse_header", "cache_fill", "render_page")
	d.want("by growth", "sort growth")
	d.keys("/", "p", "A", "r", "s", "e", ".", "c")
	check("while a file is typed", "parse_header", "render_page")
	d.keys("esc")
	check("cancelled", "parse_header", "cache_fill", "render_page")
	d.keys("/", "!", "p", "a", "r", "s", "e", "enter")
	check("without a word", "cache_fill")
	d.want("filter", "filter !parse (Esc: all)")
	d.keys("/", "ctrl+u", "x", "x", "enter")
	d.want("no match", "No row matches the filter")
	d.keys("esc", "g", "g", "g")
	d.want("by file", "parse.c", "cache.c", "SITES", "by file")
	d.keys("end", "enter")
	check("of a file", "cache_fill")
	d.want("of a file", "of file cache.c (Esc: all)")
	d.keys("esc")
	d.want("back", "by file", "SITES")
	d.keys("g", "g", "g")
	check("sites again", "parse_header", "cache_fill", "render_page")
}

// The cursor stays with its row when the order changes, and at the top where it was not moved.
func TestCursorStaysWithItsRow(t *testing.T) {
	d := drive(t, Options{})
	under := func() string { return d.list.keys[d.cursor] }
	d.keys("down")
	if under() != "#1" {
		t.Fatalf("the cursor is at %s", under())
	}
	d.Show(service(20), d.now, 0) // parse_header holds most now
	if under() != "#1" || d.cursor != 0 {
		t.Errorf("the cursor is at %s, row %d", under(), d.cursor)
	}
	d.keys("j", "home")
	d.keys("r")
	if d.cursor != 0 {
		t.Errorf("the cursor left the top: row %d", d.cursor)
	}
	d.keys("G", "k", "pgup", "pgdown", "up")
	if d.cursor != 1 {
		t.Errorf("row %d", d.cursor)
	}
}

func TestPages(t *testing.T) {
	d := drive(t, Options{})
	for round := uint64(2); round < 6; round++ {
		d.Show(service(round), d.now, 0)
	}
	d.keys("down", "enter")
	d.want("a site", "#1 parse_header", "Holds 1.22 MiB in 5,000 blocks", "Allocated 5,000 blocks", "oldest live one is 5.00 s old",
		"Live bytes at the last 5 updates: from 250 KiB to 1.22 MiB", "▁▃▅▆█", "parse_header at parse.c:40", "main at main.c:9")
	d.keys("esc", "up", "enter")
	d.want("another", "#0 cache_fill", "up to", "8.00 KiB", "100", "200")
	d.keys("end", "esc", "l")
	d.want("no growth", "No site grows")
	r := service(6)
	r.Leaks = []report.Leak{growing(1<<20, 2048)}
	d.Show(r, d.now, 0)
	d.want("growth", "growing", "2.00K/s", "parse_header", "2 Growth, leaks (1)")
	d.keys("enter")
	d.want("a leak's site", "live bytes rose in 9 of 9 windows", "Stack, innermost first")
	d.keys("esc", "m", "enter")
	d.want("a region", "ring_open maps memfd memory", "ring_open at ring.c:40")
	d.keys("esc", "p")
	d.want("pools", "requests", "POOLS")
	d.keys("5", "enter")
	d.want("a process", "live heap 4.00 MiB (50%)")
	d.keys("esc", "n")
	d.want("notes", "Losses: nothing lost")
	d.keys("esc", "?")
	d.want("help", "Ctrl-C", "Enter")
	d.keys("esc")
	d.want("sites", "by site")
	d.keys("tab", "tab", "shift+tab")
	d.want("tabs", "GROWS")
	d.keys("t")
	d.want("no threads", "No allocation seen yet")
	d.Threads([]render.ThreadSum{
		{PID: 4242, TID: 4243, Name: "worker", AllocBytes: 5 << 20, AllocCount: 12_000, PerSecond: 2048},
		{PID: 4242, TID: 4242, Name: "service", AllocBytes: 100, AllocCount: 11_000}, {AllocCount: 7},
	}, false)
	d.Show(r, d.now, 0)
	d.want("threads", "ALLOCATED", "5.00M", "12000", "2.00K/s", "4243 worker", "11000", "4242 service", "- [all other threads]", "1 of 3", "7 Threads")
	d.lacks("threads", "sample")
	d.keys("/", "w", "o", "r", "k", "enter")
	d.want("one thread", "4243 worker", "1 of 1")
	d.lacks("one thread", "4242 service")
	d.keys("esc", "space")
	d.Threads(nil, true)
	d.Show(r, d.now, 0)
	d.want("frozen threads", "4243 worker")
}

func TestFreezeAgeAndInterval(t *testing.T) {
	var asked []time.Duration
	ended := 0
	d := drive(t, Options{SetInterval: func(i time.Duration) { asked = append(asked, i) }, End: func() { ended++ }})
	d.now = d.now.Add(3500 * time.Millisecond)
	d.want("age", "figures 3 s old")
	d.keys("space")
	d.Show(service(9), d.now, 0)
	d.want("frozen", "FROZEN", "traced 1.00 s", "figures 3 s old")
	d.keys("space")
	d.lacks("going on", "FROZEN")
	d.want("going on", "traced 9.00 s", "figures 0 s old")
	d.keys("+", "+", "-", "-", "-", "-", "-")
	if got := fmt.Sprint(asked); got != "[2s 5s 2s 1s 500ms 250ms 250ms]" {
		t.Errorf("intervals %s", got)
	}
	r := service(10)
	r.Events.Lost, r.Warnings = 12, []string{"look here"}
	r.Processes[0].Usage.SampledNS = 1e9
	d.Show(r, d.now, 2)
	d.Resize(120, 24)
	d.want("losses", "12 events lost (n)", "1 warning (n)", "RSS read 9 s before", "2 updates not shown: slow terminal")
	d.keys("q")
	if d.want("the end", "ending: the result follows"); ended != 1 || !d.Ending() {
		t.Errorf("ended %d times", ended)
	}
}

func TestStatusSaysHowToEnd(t *testing.T) {
	d := drive(t, Options{BackTo: "top"})
	d.want("from top", "q back to top")
	d = drive(t, Options{Keyless: true})
	d.want("without keys", "Ctrl-C ends")
	d = &driver{NewScreen(Options{Interval: 5 * time.Second}), t, epoch}
	d.want("at first", "first figures in 5s", "q ends")
	d.keys("down", "enter", "s", "g", "/", "x", "esc", "m", "esc") // nothing to act on yet
}

// Where the locale is not UTF-8, sparklines are ASCII; colour comes only where it is wanted.
func TestColourAndLocale(t *testing.T) {
	d := drive(t, Options{Getenv: func(string) string { return "C" }})
	d.Show(service(5), d.now, 0)
	d.keys("down", "enter")
	if d.want("ASCII", "_#"); strings.ContainsAny(d.text(), "▁█") {
		t.Errorf("the screen has blocks:\n%s", d.text())
	}
	colour := regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7])m`)
	if screen := strings.Join(d.Lines(d.now), "\n"); colour.MatchString(screen) {
		t.Errorf("colour:\n%q", screen)
	}
	d = drive(t, Options{Colour: true})
	if screen := strings.Join(d.Lines(d.now), "\n"); !colour.MatchString(screen) {
		t.Errorf("no colour:\n%q", screen)
	}
}
