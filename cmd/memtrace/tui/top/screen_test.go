package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memtrace/memtrace/analyzer/render"
)

var update = flag.Bool("update", false, "write the golden frames anew")

// driver runs a Screen without a terminal: it carries out what Update asks
// for, timers excepted, which fire when the test says so.
type driver struct {
	t      *testing.T
	screen *Screen
	source *source
	ticks  int // timers that were set
	quit   bool
	traced []int
}

func drive(t *testing.T, o Options) *driver {
	t.Helper()
	d := &driver{t: t, source: &source{}}
	d.source.make = func(Want) *Snapshot { return later(full(), len(d.source.wants)-1) }
	if o.Source == nil {
		o.Source = d.source
	}
	if o.View == "" {
		o.View = Processes
	}
	o.Interval = time.Second
	o.Threshold = mib
	if o.Trace == nil {
		o.Trace = func(pid int, start uint64) (*exec.Cmd, error) {
			d.traced = append(d.traced, pid)
			return nil, errors.New("not in this test")
		}
	}
	d.screen = NewScreen(context.Background(), o)
	d.do(d.screen.Init())
	return d
}

// do carries out a command, unless it is a timer.
func (d *driver) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	before := d.screen.generation
	if d.screen.reading {
		msg := cmd()
		if batch, ok := msg.(tea.BatchMsg); ok { // of which all but the first are timers
			msg = batch[0]()
		}
		d.send(msg)
		return
	}
	if before > d.ticks {
		d.ticks = before
		return // a timer: see tick
	}
	if _, ok := cmd().(tea.QuitMsg); ok {
		d.quit = true
	}
}

// later is s as many seconds later, in which each process used 50 ms of CPU.
func later(s *Snapshot, seconds int) *Snapshot {
	s.At = s.At.Add(time.Duration(seconds) * time.Second)
	for i := range s.Processes {
		s.Processes[i].CPUTime.N += int64(seconds) * 5e7
	}
	return s
}

func (d *driver) send(msg tea.Msg) {
	_, cmd := d.screen.Update(msg)
	d.do(cmd)
}

// tick lets the timer that was set last fire.
func (d *driver) tick() { d.send(tickMsg{d.screen.generation}) }

func (d *driver) keys(names ...string) {
	for _, name := range names {
		d.send(keyPress(name))
	}
}

func keyPress(name string) tea.KeyPressMsg {
	special := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
		"tab": tea.KeyTab, "end": tea.KeyEnd, "home": tea.KeyHome, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace,
	}
	if code, ok := special[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if name == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	if name == "space" {
		name = " "
	}
	r := []rune(name)[0]
	return tea.KeyPressMsg{Code: r, Text: name}
}

func (d *driver) resize(width, height int) { d.send(tea.WindowSizeMsg{Width: width, Height: height}) }

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plain is the screen without its styles.
func (d *driver) plain() []string {
	var lines []string
	for _, line := range d.screen.lines() {
		lines = append(lines, strings.TrimRight(sgr.ReplaceAllString(line, ""), " "))
	}
	return lines
}

func (d *driver) text() string { return strings.Join(d.plain(), "\n") }

// pids are those of the rows on the screen, from the top.
func (d *driver) pids() []int {
	var pids []int
	for _, row := range d.screen.visibleRows() {
		pids = append(pids, d.screen.table.ID(row).PID)
	}
	return pids
}

func (d *driver) want(what string, parts ...string) {
	d.t.Helper()
	for _, part := range parts {
		if !strings.Contains(d.text(), part) {
			d.t.Errorf("%s: the screen lacks %q:\n%s", what, part, d.text())
		}
	}
}

// Every frame fits its terminal, whatever its size, and shows no control
// characters but its own styles, whatever the names.
func TestFramesFit(t *testing.T) {
	s := full()
	evil := "\x1b]0;owned\x07\x1b[2J\r\n\u202egnp.exe \xff日本語日本語 \x9b31m"
	for i := range s.Processes {
		s.Processes[i].Name, s.Processes[i].Command, s.Processes[i].Program = evil, evil, evil+fmt.Sprint(i)
		s.Processes[i].Cgroup, s.Processes[i].User = evil, evil
	}
	s.Host, s.Of.Name, s.Threads[0].Name, s.Mappings[0].Name, s.Components[0].Name = evil, evil, evil, evil, evil
	s.Groups[0].Path, s.Groups[0].Container, s.Books[0].Name = evil, evil, evil
	d := drive(t, Options{Colour: true, Source: &source{make: func(Want) *Snapshot { return s }}})
	for _, size := range [][2]int{{80, 24}, {160, 50}, {300, 90}, {120, 10}, {60, 12}, {40, 8}, {20, 5}, {10, 3}, {1, 1}} {
		d.resize(size[0], size[1])
		for i := range views {
			d.keys(fmt.Sprint(i + 1))
			for _, state := range []string{"", "h", "esc", "/", evil, "esc", "end", "esc"} {
				if state != "" {
					d.send(keyPress(state))
				}
				checkFrame(t, d, size[0], size[1])
			}
		}
	}
}

func checkFrame(t *testing.T, d *driver, width, height int) {
	t.Helper()
	lines := d.screen.lines()
	if len(lines) != height {
		t.Fatalf("view %s at %d×%d has %d lines", d.screen.view, width, height, len(lines))
	}
	for _, line := range lines {
		bare := sgr.ReplaceAllString(line, "")
		if n := render.Columns(bare); n > width {
			t.Fatalf("view %s at %d×%d: a line takes %d columns: %q", d.screen.view, width, height, n, bare)
		}
		if i := strings.IndexFunc(bare, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b || r == 0x202e || r == 0xfffd }); i >= 0 {
			t.Fatalf("view %s has a control character: %q", d.screen.view, bare)
		}
	}
}

// Figures are never cut: a figure is whole or its column is left out.
func TestNarrowScreensLeaveColumnsOut(t *testing.T) {
	d := drive(t, Options{})
	for width := 200; width >= 30; width-- {
		d.resize(width, 24)
		m := d.screen
		shown := place(m.table, m.visibleRows(), width, m.table.column("age"))
		if !slices.ContainsFunc(shown, func(p placed) bool { return m.table.Columns[p.column].Name == "age" }) {
			t.Fatalf("at %d columns the one that the table is sorted by is not shown", width)
		}
		for _, p := range shown {
			for _, row := range m.visibleRows() {
				c, v := &m.table.Columns[p.column], m.table.Cell(row, p.column)
				if c.right() && len([]rune(v.String())) > p.width {
					t.Fatalf("at %d columns %s has %d for %q", width, c.Name, p.width, v)
				}
			}
		}
	}
	d.resize(80, 24)
	d.want("80 columns", "PID", "USER", "RSS", "▼PSS", "USS", "SWAP", "%MEM", "%CPU", "ΔPSS", "COMMAND")
}

func TestGoldenFrames(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {150, 20}} {
		d := drive(t, Options{})
		d.tick()
		d.resize(size[0], size[1])
		for i, v := range views {
			d.keys(fmt.Sprint(i + 1))
			name := filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.txt", v.view, size[0], size[1]))
			got := d.text() + "\n"
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs (-update writes it anew):\n%s", name, got)
			}
		}
	}
}

func TestHeadAndStatus(t *testing.T) {
	d := drive(t, Options{})
	d.resize(200, 24)
	d.want("head", "web-1  13:05:03  every 1s  7 processes, 25 threads, 0 running",
		"Mem 2.00G of 8.00G", "available 6.00G", "swap 512M of 2.00G", "PSI 1.2 some 0.0 full")
	d.want("status", "own CPU 0.8%", "walked 3 of 6", "longest hold 1.8ms", "1 over budget, oldest 4.0s", "? no permission")
}

func TestSortingByKeys(t *testing.T) {
	d := drive(t, Options{})
	if got := d.pids(); got[0] != 101 || got[1] != 102 {
		t.Errorf("at first by PSS: %v", got)
	}
	d.keys("r")
	if got := d.pids(); got[0] != 201 {
		t.Errorf("reversed: %v", got)
	}
	d.keys("r", "left") // from PSS to SHR, which 80 columns have no room for otherwise
	d.want("sorted by SHR", "▼SHR")
	d.keys("left")
	if got := d.pids(); got[0] != 401 {
		t.Errorf("by RSS: %v", got)
	}
	d.keys("2", "1")
	d.want("the order stays with the view", "▼RSS")
}

func TestFilterPrompt(t *testing.T) {
	d := drive(t, Options{})
	d.keys("/", "r", "e", "d", "i", "x")
	d.want("while typing", "Filter", "redix", "nothing matches")
	d.keys("backspace", "s", "enter")
	if got := d.pids(); !slices.Equal(got, []int{101, 102}) {
		t.Errorf("filtered: %v", got)
	}
	d.want("status", "filter redis (Esc clears)")
	d.keys("2")
	if d.screen.table.Len != 1 {
		t.Errorf("%d programs, want the filtered one", d.screen.table.Len)
	}
	d.keys("1", "t")
	if d.screen.table.Len != 2 {
		t.Errorf("the filter of processes hides threads: %d of 2", d.screen.table.Len)
	}
	d.keys("/", "b", "i", "o", "enter")
	if d.screen.table.Len != 1 {
		t.Errorf("%d threads pass the filter of threads, want 1", d.screen.table.Len)
	}
	d.keys("1", "/", "q", "q", "esc")
	if got := d.pids(); !slices.Equal(got, []int{101, 102}) || d.quit {
		t.Errorf("a cancelled prompt leaves the filter: %v", got)
	}
	d.keys("esc")
	if got := d.pids(); len(got) != 7 {
		t.Errorf("cleared: %v", got)
	}
	d.keys("/")
	d.send(tea.PasteMsg{Content: "user:web"})
	d.keys("enter")
	if got := d.pids(); !slices.Equal(got, []int{201, 202}) {
		t.Errorf("pasted: %v", got)
	}
	d.keys("/", ":", "enter", "esc", "/", "p", "i", "d", ":", "x", "enter")
	d.want("a filter that is none", "is not a process ID")
}

// While the screen is frozen nothing is read, so nothing is stalled.
func TestFreeze(t *testing.T) {
	d := drive(t, Options{})
	before := len(d.source.wants)
	d.keys("space")
	d.want("frozen", "FROZEN")
	d.tick()
	d.tick()
	if got := len(d.source.wants); got != before {
		t.Errorf("%d reads while frozen", got-before)
	}
	d.keys("right") // sorting needs no reading
	if got := len(d.source.wants); got != before {
		t.Error("sorting read the machine")
	}
	d.keys("f")
	if got := len(d.source.wants); got != before+1 || strings.Contains(d.text(), "FROZEN") {
		t.Errorf("%d reads after it goes on, want 1", got-before)
	}
}

func TestInterval(t *testing.T) {
	d := drive(t, Options{})
	d.keys("+")
	d.want("less often", "every 2s")
	stale := d.screen.generation - 1
	before := len(d.source.wants)
	d.send(tickMsg{stale})
	if len(d.source.wants) != before {
		t.Error("the timer of the old interval still counts")
	}
	d.keys("-", "-", "-", "-", "-")
	d.want("more often", "every 250ms")
	d.tick()
	if len(d.source.wants) != before+1 {
		t.Error("the new timer does not count")
	}
}

// Each view asks for what it shows, at once; one read at a time.
func TestViewsAreReadWhenShown(t *testing.T) {
	d := drive(t, Options{})
	d.keys("down", "7")
	if got := d.source.wants[len(d.source.wants)-1]; got.View != Groups {
		t.Errorf("wanted %+v", got)
	}
	d.keys("1", "down", "t")
	if got := d.source.wants[len(d.source.wants)-1]; got.View != Threads || got.PID != 102 {
		t.Errorf("threads of the second process: wanted %+v", got)
	}
	d.keys("9")
	if got := d.source.wants[len(d.source.wants)-1]; got.View != Mappings || got.PID != 102 {
		t.Errorf("mappings of the same: wanted %+v", got)
	}
	d.keys("tab")
	if d.screen.view != Processes {
		t.Errorf("Tab after the last view shows %s", d.screen.view)
	}
	m := d.screen
	m.reading = true
	if m.show(Memory) != nil || !m.again {
		t.Error("a second read would begin before the first has ended")
	}
}

// A column that is not on the screen is not read, and is as soon as it is.
func TestHiddenColumnsAreNotRead(t *testing.T) {
	d := drive(t, Options{})
	d.tick()
	last := func() *Want { return &d.source.wants[len(d.source.wants)-1] }
	if last().Shows("shr") || !last().Shows("pss") {
		t.Errorf("on 80 columns wanted %v", last().Shown)
	}
	d.keys("left")
	if !last().Shows("shr") {
		t.Errorf("sorted by SHR wanted %v", last().Shown)
	}
	d.resize(200, 24)
	if !last().Shows("oom") || !last().Shows("cgroup") {
		t.Errorf("on 200 columns wanted %v", last().Shown)
	}
}

func TestCursorStaysWithItsProcess(t *testing.T) {
	d := drive(t, Options{})
	d.keys("down") // 102
	d.keys("r")
	if got, _ := d.screen.process(); got.PID != 102 {
		t.Errorf("after sorting the cursor is at %d, want 102", got.PID)
	}
	d.keys("home", "r")
	if got, _ := d.screen.process(); got.PID != 101 {
		t.Errorf("from the top it stays at the top: %d", got.PID)
	}
}

func TestScrolling(t *testing.T) {
	s := example()
	for i := range 100 {
		s.Processes = append(s.Processes, process(1000+i, "many", "web", int64(100-i)*kib, int64(100-i)*kib, 0))
	}
	d := drive(t, Options{Source: &source{make: func(Want) *Snapshot { return s }}})
	d.resize(80, 24)
	page := d.screen.page()
	if got := len(d.screen.visibleRows()); got != page || page != 19 {
		t.Errorf("%d rows on a page of %d, want 19 on 24 lines", got, page)
	}
	d.keys("end")
	d.want("the end", "107/107")
	d.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	d.want("the wheel", "104/107")
	d.keys("home", "pgdown")
	d.want("a page down", "20/107")
	d.resize(80, 10)
	if m := d.screen; m.cursor < m.first || m.cursor >= m.first+m.page() {
		t.Error("after a resize the cursor is off the screen")
	}
	// Cells are made for what is visible only, apart from the column that is sorted by.
	made := 0
	inner := d.screen.table.Cell
	d.screen.table.Cell = func(row, col int) Value { made++; return inner(row, col) }
	d.screen.lines()
	if limit := 4 * d.screen.page() * len(d.screen.table.Columns); made > limit {
		t.Errorf("%d cells were made for %d rows", made, d.screen.page())
	}
}

func TestMouse(t *testing.T) {
	d := drive(t, Options{})
	lines := d.plain()
	heading := 3
	x := strings.Index(lines[heading], "RSS")
	d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: x, Y: heading})
	d.want("a click on a title", "▼RSS")
	d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: x, Y: heading})
	d.want("a second", "▲RSS")
	d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: 5, Y: heading + 3})
	if d.screen.cursor != 2 {
		t.Errorf("a click on the third row puts the cursor at %d", d.screen.cursor)
	}
	d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: strings.Index(lines[2], "Cgroups"), Y: 2})
	if d.screen.view != Groups {
		t.Errorf("a click on a view shows %s", d.screen.view)
	}
	d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: 79, Y: 22}) // nothing there
	d.send(tea.MouseClickMsg{Button: tea.MouseRight, X: 2, Y: 2})
	if d.screen.view != Groups {
		t.Error("a click beside everything did something")
	}
}

func TestHelp(t *testing.T) {
	d := drive(t, Options{})
	d.keys("h")
	d.want("help", "trace the process under the cursor", "no permission")
	d.resize(100, 60)
	d.want("help of the view", "resident memory that no other process maps")
	d.keys("x")
	if d.screen.helping {
		t.Error("a key does not close the help page")
	}
}

func TestEnter(t *testing.T) {
	d := drive(t, Options{})
	d.keys("down", "enter")
	if !slices.Equal(d.traced, []int{102}) {
		t.Errorf("traced %v, want the process under the cursor", d.traced)
	}
	d.want("why it failed", "not in this test")
	d.keys("2", "enter")
	if d.screen.view != Processes || !slices.Equal(d.pids(), []int{101, 102}) {
		t.Errorf("Enter on a program shows %v in view %s", d.pids(), d.screen.view)
	}
	d.keys("esc", "7", "enter")
	if d.screen.view != Processes || !slices.Equal(d.pids(), []int{101, 102}) {
		t.Errorf("Enter on a cgroup shows %v in view %s", d.pids(), d.screen.view)
	}
	d.send(tracedMsg{pid: 102, err: errors.New("exit status 77"), said: "memtrace: needs root\nor\x1b[2J " + strings.Repeat("capabilities ", 30)})
	d.want("a trace that failed", "memtrace: needs root", "or\\x1b[2J capabilities", "could not be traced")
	for _, size := range [][2]int{{80, 24}, {20, 5}, {1, 1}} {
		d.resize(size[0], size[1])
		checkFrame(t, d, size[0], size[1])
	}
	d.resize(80, 24)
	d.keys("down")
	d.want("the table again", "COMMAND")
	d.send(tracedMsg{pid: 102})
	d.want("a trace that went well", "traced process 102")
}

// A view of a process that was named by its PID stays one of that process.
func TestSubjectStaysTheProcess(t *testing.T) {
	d := drive(t, Options{View: Threads, PID: 101})
	d.tick()
	var asked []uint64
	for _, want := range d.source.wants {
		asked = append(asked, want.Start)
	}
	if want := []uint64{0, 1010}; !slices.Equal(asked, want) {
		t.Errorf("asked for the processes that began at %d, want %d", asked, want)
	}
}

func TestEnds(t *testing.T) {
	for _, key := range []string{"q", "ctrl+c"} {
		d := drive(t, Options{})
		d.keys(key)
		if !d.quit {
			t.Errorf("%s does not quit", key)
		}
	}
	d := drive(t, Options{})
	d.keys("/", "ctrl+c")
	if !d.quit {
		t.Error("Ctrl-C in the prompt does not quit")
	}
	gone := false
	d = drive(t, Options{Gone: func() bool { return gone }})
	d.tick()
	if d.quit {
		t.Error("it quits while the terminal is there")
	}
	gone = true
	d.tick()
	if !d.quit {
		t.Error("it goes on without its terminal")
	}
	broken := &source{err: errors.New("no /proc")}
	d = drive(t, Options{Source: broken})
	if !errors.Is(d.screen.Err(), broken.err) {
		t.Errorf("the source's error is %v", d.screen.Err())
	}
}

// NO_COLOR leaves bold and reverse, which are no colours.
func TestWithoutColour(t *testing.T) {
	d := drive(t, Options{})
	frame := strings.Join(d.screen.lines(), "\n")
	for _, code := range sgr.FindAllString(frame, -1) {
		if code != "\x1b[0m" && code != "\x1b[1m" && code != "\x1b[7m" && code != "\x1b[1;4m" {
			t.Errorf("style %q without colour", code)
		}
	}
	d = drive(t, Options{Colour: true})
	if !strings.Contains(strings.Join(d.screen.lines(), "\n"), "36m") {
		t.Error("no colour where it is allowed")
	}
}
