package tui

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// terminal is a fake: it hands each Write over to the test, and waits for the
// test to take it, as a slow terminal does.
type terminal struct{ writes chan string }

func (t terminal) Write(b []byte) (int, error) {
	t.writes <- string(b)
	return len(b), nil
}

func sized(columns, rows int) func() (int, int) { return func() (int, int) { return columns, rows } }

func example(site string) *report.Report {
	return &report.Report{
		WindowNS:  1e9,
		Processes: []report.Process{{PID: 7, Comm: "demo"}},
		Sites:     []report.Site{{Function: site, LiveBytes: 4096, LiveCount: 1}},
	}
}

// stop calls Stop while the fake terminal takes what is written meanwhile.
func stop(t *testing.T, p *Painter, out terminal) []string {
	t.Helper()
	result := make(chan error)
	go func() { result <- p.Stop() }()
	var rest []string
	for {
		select {
		case s := <-out.writes:
			rest = append(rest, s)
		case err := <-result:
			if err != nil {
				t.Error(err)
			}
			return rest
		}
	}
}

func TestPaintsInPlaceAndRestores(t *testing.T) {
	out := terminal{make(chan string)}
	p := Start(Options{Out: out, Size: sized(60, 16)})
	if got := <-out.writes; got != enterScreen {
		t.Errorf("first write is %q", got)
	}
	for _, site := range []string{"first", "second"} {
		p.Paint(example(site))
		frame := <-out.writes
		if !strings.HasPrefix(frame, cursorHome) || !strings.Contains(frame, site) {
			t.Errorf("frame %q", frame)
		}
		if n := strings.Count(frame, "\r\n"); n > 15 || strings.HasSuffix(frame, "\n") {
			t.Errorf("frame scrolls 16 rows: %d newlines in %q", n, frame)
		}
	}
	if rest := stop(t, p, out); len(rest) != 1 || rest[0] != leaveScreen {
		t.Errorf("Stop wrote %q", rest)
	}
	if rest := stop(t, p, out); rest != nil {
		t.Errorf("second Stop wrote %q", rest)
	}
}

func TestAsksForTheSizeAtEachFrame(t *testing.T) {
	out := terminal{make(chan string)}
	rows := make(chan int, 2)
	p := Start(Options{Out: out, Size: func() (int, int) { return 60, <-rows }})
	<-out.writes
	for _, n := range []int{6, 20} {
		rows <- n
		p.Paint(example("f"))
		if lines := strings.Count(<-out.writes, "\r\n") + 1; lines > n || n == 20 && lines <= 6 {
			t.Errorf("%d lines on %d rows", lines, n)
		}
	}
	stop(t, p, out)
}

func TestSlowTerminalSkipsFrames(t *testing.T) {
	out := terminal{make(chan string)}
	p := Start(Options{Out: out, Size: sized(80, 24)})
	// The terminal has not even taken enterScreen: none of these may block,
	// and only the last can be shown.
	for _, site := range []string{"one", "two", "three"} {
		p.Paint(example(site))
	}
	if p.Skipped() != 2 {
		t.Errorf("%d skipped, want 2", p.Skipped())
	}
	<-out.writes
	frame := <-out.writes
	if !strings.Contains(frame, "three") || !strings.Contains(frame, "2 reports not shown") {
		t.Errorf("frame %q", frame)
	}
	stop(t, p, out)
}

func TestStopDoesNotHangOnADeadTerminal(t *testing.T) {
	p := Start(Options{Out: terminal{make(chan string)}, Size: sized(80, 24)})
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "took no output") {
		t.Errorf("got %v", err)
	}
}

type gone struct{}

var errGone = errors.New("input/output error")

func (gone) Write([]byte) (int, error) { return 0, errGone }

func TestStopReturnsTheTerminalsError(t *testing.T) {
	p := Start(Options{Out: gone{}, Size: sized(80, 24)})
	if err := p.Stop(); !errors.Is(err, errGone) {
		t.Errorf("got %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		env            map[string]string
		capable, color bool
	}{
		{map[string]string{"TERM": "xterm-256color"}, true, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, true, false},
		{map[string]string{"TERM": "dumb"}, false, false},
		{map[string]string{}, false, false},
	} {
		getenv := func(key string) string { return c.env[key] }
		if capable(getenv) != c.capable || UseColor(getenv) != c.color {
			t.Errorf("%v: capable %v, color %v", c.env, capable(getenv), UseColor(getenv))
		}
	}
}

func TestFileIsNoTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Usable(f, func(string) string { return "xterm" }) {
		t.Error("/dev/null passes as a terminal")
	}
	if columns, rows := ForTerminal(f).Size(); columns != 80 || rows != 24 {
		t.Errorf("size of /dev/null: %d × %d", columns, rows)
	}
}
