//go:build linux && !viewer

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
	"github.com/memtrace/memtrace/tracer/event"
)

// output shows what a session finds.
type output interface {
	wantsIntervals() bool // false: interval does nothing
	interval(*report.Report)
	final(*report.Report) error
	stack(event.Stack)
	events([]event.Event)
	warning(string)
}

// noOutput does nothing. Outputs that ignore some of the calls embed it.
type noOutput struct{}

func (noOutput) wantsIntervals() bool       { return false }
func (noOutput) interval(*report.Report)    {}
func (noOutput) final(*report.Report) error { return nil }
func (noOutput) stack(event.Stack)          {}
func (noOutput) events([]event.Event)       {}

// A name in a warning may be hostile.
func (noOutput) warning(text string) {
	fmt.Fprintf(os.Stderr, "memtrace: warning: %s\n", render.Clean(text))
}

// stream writes a Report per interval, and the last one. What reads our output
// may be slow or stopped: the trace goes on meanwhile, and Reports that could
// not be written are counted.
type stream struct {
	noOutput
	to      io.Writer
	opt     render.Options
	mail    chan *report.Report // at most one Report waits; nil: only the last is written
	done    chan struct{}
	err     error // of the first write that failed; read after done
	skipped int
}

func (s *stream) wantsIntervals() bool { return s.mail != nil }

func (s *stream) interval(r *report.Report) {
	if s.mail == nil {
		return
	}
	select {
	case s.mail <- r:
	default:
		s.skipped++
	}
}

// start writes a Report per interval, in a goroutine of its own.
func (s *stream) start() {
	s.mail, s.done = make(chan *report.Report, 1), make(chan struct{})
	go func() {
		defer close(s.done)
		for r := range s.mail {
			if s.err == nil {
				s.err = s.write(r)
			}
		}
	}()
}

func (s *stream) final(r *report.Report) error {
	if s.mail != nil {
		close(s.mail)
		<-s.done
	}
	if s.err != nil {
		return s.err
	}
	if s.skipped > 0 {
		fmt.Fprintf(os.Stderr, "memtrace: %d Reports were left out because the output was too slow\n", s.skipped)
	}
	return s.write(r)
}

// write makes one Write of a Report, so that readers never see half of one.
func (s *stream) write(r *report.Report) error {
	if s.opt.Format == render.JSON {
		return render.Write(s.to, r, s.opt) // in one Write
	}
	var b bytes.Buffer
	if err := render.Write(&b, r, s.opt); err != nil {
		return err
	}
	b.WriteByte('\n')
	if _, err := s.to.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// screen repaints a terminal, and leaves the last Report on it as text.
type screen struct {
	stream
	painter *tui.Painter
}

func (s *screen) wantsIntervals() bool { return true }

func (s *screen) interval(r *report.Report) { s.painter.Paint(r) }

func (s *screen) warning(string) {} // the Report has it; the terminal is taken

func (s *screen) final(r *report.Report) error {
	if err := s.painter.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: %v\n", err)
	}
	return s.stream.final(r)
}

// eachInterval says whether what isn't a live screen has a Report each interval, or the result alone: text for
// a file or a pipe has it only where an interval was asked for. JSON is a stream.
func (s settings) eachInterval(terminal bool) bool {
	return s.format != render.Text || s.each || terminal
}

// traceOutput chooses how trace shows its Reports on stdout.
func traceOutput(s settings) output {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	opt := render.Options{Format: s.format, Compact: true, Frames: textFrames, Stacks: textStacks}
	base := stream{to: os.Stdout, opt: opt}
	if s.format == render.Text {
		base.opt.Color = terminal && tui.UseColor(os.Getenv)
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			base.opt.Width = width
		}
		if tui.Usable(os.Stdout, os.Getenv) {
			opts := tui.ForTerminal(os.Stdout)
			opts.Top = s.top
			return &screen{stream: base, painter: tui.Start(opts)}
		}
	}
	if s.eachInterval(terminal) {
		base.start()
	}
	return &base
}
