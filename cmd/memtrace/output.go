package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
	"github.com/memtrace/memtrace/tracer/event"
)

// output shows what a session finds.
type output interface {
	interval(*analyzer.Report)
	final(*analyzer.Report) error
	stack(event.Stack)
	events([]event.Event)
	warning(string)
}

// silent is what outputs that ignore some of it build on.
type silent struct{}

func (silent) interval(*analyzer.Report)    {}
func (silent) final(*analyzer.Report) error { return nil }
func (silent) stack(event.Stack)            {}
func (silent) events([]event.Event)         {}
func (silent) warning(text string)          { fmt.Fprintf(os.Stderr, "memtrace: warning: %s\n", text) }

// textFrames is how much of each stack the text shows.
const (
	textFrames = 12
	textStacks = 8
)

// stream writes a Report per interval, and the last one.
type stream struct {
	silent
	to   io.Writer
	opt  report.Options
	live bool // every interval, not only the last
	err  error
}

func (s *stream) interval(r *analyzer.Report) {
	if s.live && s.err == nil {
		s.err = s.write(r)
	}
}

func (s *stream) final(r *analyzer.Report) error {
	if s.err != nil {
		return s.err
	}
	return s.write(r)
}

// write makes one Write of a Report, so that readers never see half of one.
func (s *stream) write(r *analyzer.Report) error {
	var b bytes.Buffer
	if err := report.Write(&b, r, s.opt); err != nil {
		return err
	}
	if s.opt.Format != report.JSON {
		b.WriteByte('\n')
	}
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

func (s *screen) interval(r *analyzer.Report) { s.painter.Paint(r) }

func (s *screen) warning(string) {} // the Report has it; the terminal is taken

func (s *screen) final(r *analyzer.Report) error {
	if err := s.painter.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: %v\n", err)
	}
	return s.stream.final(r)
}

// traceOutput chooses how trace shows its Reports on stdout.
func traceOutput(s settings) output {
	opt := report.Options{Format: s.format, Compact: true, Frames: textFrames, Stacks: textStacks}
	base := stream{to: os.Stdout, opt: opt, live: true}
	if s.format != report.Text {
		return &base
	}
	base.opt.Color = term.IsTerminal(int(os.Stdout.Fd())) && tui.UseColor(os.Getenv)
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		base.opt.Width = width
	}
	if !tui.Usable(os.Stdout, os.Getenv) {
		return &base
	}
	opts := tui.ForTerminal(os.Stdout)
	opts.Top = s.top
	return &screen{base, tui.Start(opts)}
}
