package tui

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// What a terminal understands since the VT100 and xterm: see
// https://invisible-island.net/xterm/ctlseqs/ctlseqs.html.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // alternate screen, no cursor, no wrapping
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	eraseLine   = "\x1b[K" // to the end of the line
	eraseBelow  = "\x1b[J"
)

// stopPatience bounds how long Stop waits for a terminal that takes no output.
const stopPatience = 500 * time.Millisecond

// Options of a Painter.
type Options struct {
	Out   io.Writer // gets one Write per frame
	Size  func() (columns, rows int)
	Color bool
	Top   int // most sites to show; 0: as many as fit
}

// ForTerminal returns Options for the terminal f, asking it for its size at
// each frame. A size that cannot be had is taken as 80 × 24.
func ForTerminal(f *os.File) Options {
	return Options{
		Out:   f,
		Color: UseColor(os.Getenv),
		Size: func() (int, int) {
			columns, rows, err := term.GetSize(int(f.Fd()))
			if err != nil || columns <= 0 || rows <= 0 {
				return 80, 24
			}
			return columns, rows
		},
	}
}

// Usable reports whether f is a terminal that can be repainted in place.
// getenv is os.Getenv.
func Usable(f *os.File, getenv func(string) string) bool {
	return capable(getenv) && term.IsTerminal(int(f.Fd()))
}

func capable(getenv func(string) string) bool {
	name := getenv("TERM")
	return name != "" && name != "dumb"
}

// UseColor reports whether the environment allows colour: see https://no-color.org.
func UseColor(getenv func(string) string) bool {
	return capable(getenv) && getenv("NO_COLOR") == ""
}

// Painter repaints Reports on a terminal. Paint is for one goroutine; Stop
// and Skipped may be called from any.
type Painter struct {
	opt     Options
	mail    chan *report.Report // at most one Report waits
	quit    chan struct{}
	stop    sync.Once
	done    chan struct{} // the terminal is restored, or cannot be
	skipped atomic.Uint64
	err     error // of the terminal; read after done
}

// Start takes over the terminal. Stop must follow.
func Start(opt Options) *Painter {
	p := &Painter{
		opt:  opt,
		mail: make(chan *report.Report, 1),
		quit: make(chan struct{}),
		done: make(chan struct{}),
	}
	go p.run()
	return p
}

// Paint shows r as soon as the terminal can take it, and returns at once. r
// must not change afterwards. If an earlier Report still waits, r replaces it.
func (p *Painter) Paint(r *report.Report) {
	for {
		select {
		case p.mail <- r:
			return
		default:
		}
		select {
		case <-p.mail:
			p.skipped.Add(1)
		default:
		}
	}
}

// Skipped is the number of Reports that were not shown because the terminal
// was too slow.
func (p *Painter) Skipped() uint64 { return p.skipped.Load() }

// Stop gives the terminal back as it was. It waits for that at most half a
// second, and may be called any number of times. Its error is the first that
// the terminal returned, or says that the terminal takes no output.
func (p *Painter) Stop() error {
	p.stop.Do(func() { close(p.quit) })
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopPatience):
		return fmt.Errorf("restore the terminal: it took no output for %v (stopped by Ctrl-S?); type reset if it looks odd", stopPatience)
	}
}

// run writes all that goes to the terminal.
func (p *Painter) run() {
	defer close(p.done)
	p.write([]byte(enterScreen))
	for {
		select {
		case <-p.quit:
			p.write([]byte(leaveScreen))
			return
		case r := <-p.mail:
			p.write(p.frame(r))
		}
	}
}

// write keeps the first error. A terminal that is gone makes every later
// write fail too, which is harmless.
func (p *Painter) write(b []byte) {
	if _, err := p.opt.Out.Write(b); err != nil && p.err == nil {
		p.err = fmt.Errorf("write to the terminal: %w", err)
	}
}

// frame lays r out for the terminal's present size.
func (p *Painter) frame(r *report.Report) []byte {
	columns, rows := p.opt.Size()
	opt := render.Options{Width: columns, Top: p.opt.Top, Color: p.opt.Color}
	lines := render.Screen(p.withSkipped(r), opt, rows)
	var b bytes.Buffer
	b.WriteString(cursorHome)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		// Before the text: after a line as wide as the terminal, the cursor
		// is still on its last character.
		b.WriteString(eraseLine)
		b.WriteString(line)
	}
	if len(lines) < rows {
		b.WriteString("\r\n" + eraseBelow)
	}
	return b.Bytes()
}

// withSkipped adds a warning where Reports were left out.
func (p *Painter) withSkipped(r *report.Report) *report.Report {
	n := p.Skipped()
	if n == 0 {
		return r
	}
	noted := *r
	noted.Warnings = append(append([]string{}, r.Warnings...), fmt.Sprintf("%d reports not shown: the terminal is too slow", n))
	return &noted
}
