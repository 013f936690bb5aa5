//go:build linux && !viewer

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
	"github.com/memtrace/memtrace/cmd/memtrace/tui/trace"
	"github.com/memtrace/memtrace/tracer/event"
)

// output shows what a session finds.
type output interface {
	wantsIntervals() bool // false: interval does nothing
	endedAt() uint64      // for analyzer.ReportOptions of an interval's Report
	interval(*report.Report)
	final(*report.Report) error
	stack(event.Stack)
	events([]event.Event)
	warning(string)
}

// noOutput does nothing. Outputs that ignore some of the calls embed it.
type noOutput struct{}

func (noOutput) wantsIntervals() bool       { return false }
func (noOutput) endedAt() uint64            { return 0 }
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
	if err := writeReport(&b, r, s.opt); err != nil {
		return err
	}
	if s.opt.Format == render.Text {
		b.WriteByte('\n')
	}
	if _, err := s.to.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// screen shows Reports on a terminal, and leaves the last one on it as text.
type screen struct {
	stream
	terminal *trace.Terminal
	threads  *threadSums
}

func (s *screen) wantsIntervals() bool { return true }

func (s *screen) interval(r *report.Report) {
	s.terminal.Show(r, s.threads.list(time.Now()), s.threads.sampled)
}

func (s *screen) events(events []event.Event) { s.threads.add(events) }

func (s *screen) warning(string) {} // the Report has it; the terminal is taken

func (s *screen) final(r *report.Report) error {
	if err := s.terminal.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: %v\n", err)
	}
	return s.stream.final(r)
}

// startedByTop is set for a trace that memtrace top started: the terminal is top's again afterwards.
const startedByTop = "MEMTRACE_STARTED_BY_TOP"

// startScreen takes the terminal. Its keys end the trace as a signal does.
func (s *session) startScreen() *trace.Terminal {
	o := trace.Options{
		Interval: s.settings.interval, Sort: s.sort, By: s.by, Colour: tui.UseColor(os.Getenv), Getenv: os.Getenv,
		Keyless:     !inForeground(), // nor may a background process change the terminal's modes
		End:         func() { _ = unix.Kill(os.Getpid(), unix.SIGINT) },
		SetInterval: s.askInterval,
	}
	if os.Getenv(startedByTop) != "" {
		o.BackTo = "top"
	}
	return trace.Start(os.Stdout, o)
}

// askInterval has the session report at another interval; the last one asked for counts. It is for one goroutine.
func (s *session) askInterval(d time.Duration) {
	select {
	case <-s.newInterval:
	default:
	}
	s.newInterval <- d
}

// eachInterval says whether what isn't a live screen has a Report each interval, or the result alone: text for
// a file or a pipe has it only where an interval was asked for. JSON is a stream, and CSV one table.
func (s settings) eachInterval(terminal bool) bool {
	return !s.quiet && s.format != render.CSV && (s.format != render.Text || s.each || terminal)
}

// shownAs is how Reports are written.
func (s *settings) shownAs() render.Options {
	return render.Options{Format: s.format, Compact: true, Frames: s.frames, Stacks: textStacks, Held: isOfHeld(s.sort)}
}

// traceOutput chooses how trace shows its Reports on stdout.
func (s *session) traceOutput() output {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	base := stream{to: os.Stdout, opt: s.shownAs()}
	if s.format == render.Text {
		base.opt.Color = terminal && tui.UseColor(os.Getenv)
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			base.opt.Width = width
		}
		if !s.quiet && tui.Usable(os.Stdout, os.Getenv) {
			s.listed = max(s.top, screenSites)
			return &screen{stream: base, terminal: s.startScreen(), threads: newThreadSums(s.threadName)}
		}
	}
	if s.eachInterval(terminal) {
		base.start()
	}
	return &base
}

// screenSites is how many sites a screen has to scroll through, at least.
const screenSites = 500
