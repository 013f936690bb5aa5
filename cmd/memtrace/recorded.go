package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// splitInstant takes FILE@TIME apart. A file that is there by the whole name is that.
func splitInstant(arg string) (path, at string) {
	if err := asCaller(func() error { _, err := os.Stat(arg); return err }); err == nil {
		return arg, ""
	}
	i := strings.LastIndexByte(arg, '@')
	if i <= 0 || i == len(arg)-1 || !looksLikeInstant(arg[i+1:]) {
		return arg, ""
	}
	return arg[:i], arg[i+1:]
}

// askedInstant is the time of FILE@TIME or of --at, which must not both be there; "" where neither is.
func askedInstant(c *cli.Context, ofFile string) (string, error) {
	for _, name := range []string{"at", "from", "to"} {
		if ofFile != "" && c.IsSet(name) {
			return "", usageError("FILE@%s and --%s %s: give one of them", ofFile, name, c.String(name))
		}
	}
	if ofFile == "" {
		return c.String("at"), nil
	}
	return ofFile, nil
}

// withInstantMeant adds to the error of a missing file FILE@TIME that FILE is there, and TIME no time.
func withInstantMeant(arg string, err error) error {
	i := strings.LastIndexByte(arg, '@')
	if i <= 0 || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, there := os.Stat(arg[:i]); there != nil {
		return err
	}
	if _, wrong := parseInstant(arg[i+1:]); wrong != nil {
		return fmt.Errorf("%w; %s is there, but %w", err, arg[:i], wrong)
	}
	return err
}

// An instant is a time of a recording as people write it.
type instant struct {
	start, end bool          // since which: or else
	offset     time.Duration // from there
	wall       time.Time
}

const instantForms = "a time is 12.5s or 1m30s since the start, start, end, end-10s, or a time of day such as 2026-11-26T10:00:00Z"

func parseInstant(text string) (instant, error) {
	rest, fromEnd := strings.CutPrefix(text, "end")
	switch {
	case fromEnd && rest == "":
		return instant{end: true}, nil
	case fromEnd:
		back, minus := strings.CutPrefix(rest, "-")
		if d, err := time.ParseDuration(back); minus && err == nil && d >= 0 {
			return instant{end: true, offset: -d}, nil
		}
	case text == "start":
		return instant{start: true}, nil
	default:
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return instant{start: true, offset: d}, nil
		}
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return instant{wall: t}, nil
		}
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return instant{}, fmt.Errorf("%q has no unit: write %[1]ss for seconds since the start", text)
	}
	return instant{}, fmt.Errorf("%q is no time: %s", text, instantForms)
}

func looksLikeInstant(text string) bool {
	_, err := parseInstant(text)
	return err == nil
}

// of is the time of CLOCK_MONOTONIC in a recording, which must have it.
func (i instant) of(r *recording.Reader) (uint64, error) {
	first, last := r.Span()
	var at uint64
	switch {
	case i.end && uint64(-i.offset) > last-first:
		at = 0
	case i.end:
		at = last - uint64(-i.offset)
	case i.start && i.offset == 0:
		at, _ = r.From()
	case i.start:
		at = first + uint64(i.offset)
	default:
		at = r.Header().Monotonic(i.wall)
	}
	if from, carried := r.From(); carried && at >= first && at < from {
		return 0, fmt.Errorf("the recording begins %v after the trace did, at %s: what was before was not kept", time.Duration(from-first).Round(time.Millisecond),
			r.Header().Time(from).UTC().Format(time.RFC3339))
	}
	if at < first || at > last {
		return 0, fmt.Errorf("the recording has no such time: it lasts %v, from %s to %s", time.Duration(last-first).Round(time.Millisecond),
			r.Header().Time(first).UTC().Format(time.RFC3339), r.Header().Time(last).UTC().Format(time.RFC3339))
	}
	return at, nil
}

// isRecording looks into a file that was just opened.
func isRecording(f *os.File) bool {
	var begin [8]byte
	n, _ := f.ReadAt(begin[:], 0) // of a pipe, none
	return recording.Is(begin[:n])
}

// readRecording opens a recording. ctx ends with Ctrl-C.
func readRecording(ctx context.Context, f *os.File, name string) (*recording.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	r, err := recording.Open(f, info.Size())
	if errors.Is(err, recording.ErrNewer) {
		return nil, fmt.Errorf("read %s: %w: install a newer one", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	r.Watch = newReading(ctx, name).watch
	return r, nil
}

// recordedReport is the Report of a recording: the trace's own last one, or that of an instant. at is "" where none
// was asked for.
func recordedReport(ctx context.Context, f *os.File, name, at string, memory uint64) (*report.Report, time.Time, error) {
	r, err := readRecording(ctx, f, name)
	if err != nil {
		return nil, time.Time{}, err
	}
	_, last := r.Span()
	if at == "" {
		if out := storedReport(r, name, memory); out != nil {
			return out, r.Header().Time(last), nil
		}
	}
	until := uint64(recording.End)
	if at != "" {
		when, err := parseInstant(at)
		if err != nil {
			return nil, time.Time{}, usageError("%v", err)
		}
		if until, err = when.of(r); err != nil {
			return nil, time.Time{}, fmt.Errorf("read %s at %s: %w", name, at, err)
		}
		last = until
	}
	sites, blocks := memoryShares(memory)
	out, missing, err := r.ReportAt(until, recording.Rooms{Sites: sites, Blocks: blocks}, analyzer.ReportOptions{Final: true, Sort: defaultSort})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read %s: %w", name, err)
	}
	for _, text := range missing { // not every format has the Report's warnings
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s: %s\n", render.Clean(name), render.Clean(text))
	}
	out.Made = madeOf(r, last)
	return out, r.Header().Time(last), nil
}

// storedReport is the Report that the trace ended with; nil where the recording has none that can be read within
// this memory: it can be made again.
func storedReport(r *recording.Reader, name string, memory uint64) *report.Report {
	text, ok := r.Stored()
	if !ok {
		return nil
	}
	out, _, err := export.Read(bytes.NewReader(text), memory/2)
	switch {
	case errors.Is(err, export.ErrTooLarge):
		return nil
	case err != nil:
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s: its last Report: %s: it is made again\n", render.Clean(name), render.Clean(err.Error()))
		return nil
	}
	return out
}
