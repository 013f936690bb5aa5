//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

const recordDescription = "Writes all that a trace sees into FILE: each allocation and free with its time, thread and call stack, where memory " +
	"was, what leaked. memtrace report FILE shows the result, and report FILE --at TIME what it was at any time; export makes pictures of " +
	"either. Without a command it records running processes until Ctrl-C or --duration. trace and run take -o FILE, too, and show their " +
	"Reports beside it.\n\nFILE can be read by its owner alone, as it has names of the program's functions and files. The contents of the " +
	"program's memory are not in it."

// notRecorded are flags of trace that say what is shown.
var notRecorded = []string{"events", "kind", "min-size", "function", "stacks", "format", "top", "sort", "by", "frames"}

func recordFlags() []cli.Flag {
	return slices.DeleteFunc(traceFlags(), func(f cli.Flag) bool { return slices.Contains(notRecorded, f.Names()[0]) })
}

func recordCommand(c *cli.Context) error {
	argv := c.Args().Slice()
	if len(argv) > 0 {
		if err := refuseLateFlags(c, argv); err != nil {
			return err
		}
	}
	set, err := readSettings(c)
	if err != nil {
		return err
	}
	switch {
	case !startedByServe():
	case set.tracer.Touch:
		return traceForAgent(c.Context, set)
	default:
		return traceForAlert(c.Context, set)
	}
	chosen := len(set.pids) > 0 || !set.chosen.empty()
	switch {
	case set.recording == nil:
		return usageError("record needs a file to write: memtrace record -o FILE -p PID, or -o FILE -- COMMAND")
	case len(argv) > 0 && chosen:
		return usageError("record takes a command or running processes (-p, --comm, --cgroup, --container, --all), not both")
	case len(argv) > 0 && set.duration > 0:
		return usageError("record of a command ends with that: leave out --duration, or end the command by timeout %v %s", set.duration, argv[0])
	case len(argv) == 0 && !chosen:
		return usageError("nothing to record: give -p PID, --comm NAME, --cgroup PATH or --container ID, or a command: memtrace record -o FILE -- COMMAND")
	}
	set.recordOnly = true
	if err := set.open(); err != nil {
		return err
	}
	defer set.recording.abandon()
	if len(argv) > 0 {
		return set.gate.finish(runProgram(c.Context, set, argv, ""))
	}
	context.AfterFunc(c.Context, endAtSecondSignal)
	return set.gate.finish(traceRunning(c, set))
}

// endRecording closes the recording, with the last Report in it. The Report is limited to what is to be shown then.
func (s *session) endRecording(r *report.Report) {
	rec := s.recorder
	if rec == nil {
		return
	}
	s.progress.clear()
	if rec.flight != nil && rec.writer != nil {
		rec.flight.end(s)
	}
	if s.recordError = rec.close(r); s.recordError != nil {
		s.recordError = fmt.Errorf("%w: the recording lacks what came after", s.recordError)
		if rec.told.Err != nil {
			s.recordError = &exitError{exitFailed, errQuiet} // it was said when it happened
		}
	}
	r.Limit(s.top)
	if s.recordError == nil { // else that says it
		s.checkRecording()
	}
	if s.recordOnly && !s.quiet && rec.writer != nil && rec.flight == nil && !errors.Is(rec.status().Err, errRemoved) {
		n, status := rec.writer.Counts(), rec.status()
		fmt.Fprintf(os.Stderr, "memtrace: recorded %s in %s to %s (%s): memtrace report %[3]s shows the result\n", counted(n.Events-status.LeftOutEvents, "event"),
			report.HumanTime(r.WindowNS), render.Clean(rec.file.path), report.HumanBytes(float64(rec.size())))
	}
}

func counted(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A progress is the line on a terminal that says how a recording goes; nil: there is none.
type progress struct {
	to    io.Writer
	next  time.Time
	bytes int64
	at    time.Time
}

// newProgress is for a terminal that nothing else is written to.
func newProgress() *progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return &progress{to: os.Stderr, at: time.Now()}
}

// showProgress rewrites the line once a second.
func (s *session) showProgress() {
	p := s.progress
	if p == nil || s.recorder == nil || s.recorder.writer == nil || time.Now().Before(p.next) {
		return
	}
	n, status, t := s.recorder.writer.Counts(), s.recorder.status(), time.Now()
	what := "recording"
	if s.recorder.flight != nil {
		what = "in flight"
	}
	rate := float64(status.Bytes-p.bytes) / t.Sub(p.at).Seconds()
	p.bytes, p.at, p.next = status.Bytes, t, t.Add(time.Second)
	lost := "nothing lost"
	if loss, err := s.tracer.Loss(); err == nil && loss.Lost()+status.LeftOutEvents > 0 {
		lost = fmt.Sprintf("%d lost", loss.Lost()+status.LeftOutEvents)
	}
	fmt.Fprintf(p.to, "\r\x1b[K%s %v  %s  %s, %s/s  %s  (Ctrl-C ends)", what, time.Duration(now()-s.started).Round(time.Second), counted(n.Events, "event"),
		report.HumanBytes(float64(s.recorder.size())), report.HumanBytes(max(rate, 0)), lost)
}

// clear removes the line.
func (p *progress) clear() {
	if p != nil {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// recordOutput shows nothing of a Report.
type recordOutput struct {
	noOutput
	progress *progress
}

func (o recordOutput) warning(text string) {
	o.progress.clear()
	o.noOutput.warning(text)
}

// withRecord is the error of a trace that ended well: that of its recording, if that failed.
func (s *session) withRecord(err error) error {
	if err == nil {
		return s.recordError
	}
	return err
}
