//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/analyzer/watch"
)

func watchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "watch", Usage: "wait until this is met, such as 'swap>80%' or 'pss(redis)>2GiB'; then take the snapshot, if -o is given"},
		&cli.BoolFlag{Name: "once", Usage: "with --watch: end at the first crossing"},
		&cli.StringFlag{Name: "exec", Usage: "with --watch: run this by sh at each crossing; MEMTRACE_CONDITION, _FIGURE and _LIMIT tell which"},
		&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "with --watch: look this often"},
		&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}, Usage: "with --watch: end after this time; without it, at Ctrl-C"},
		&cli.StringFlag{Name: "hysteresis", Value: "5%", Usage: "with --watch: a crossing is over when the figure is back by this share of its limit"},
		&cli.IntFlag{Name: "error-exitcode", Value: exitFound, Usage: "with --watch: exit code when a condition was met"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "with --watch: format of the lines"},
	}
}

// watching is a running snapshot --watch.
type watching struct {
	watch    *watch.Watch
	take     snapshot.Options
	output   string // of the snapshot; empty for none
	once     bool
	json     bool
	interval time.Duration
	code     int
	command  *hook
	crossed  bool
}

// watchCommand is snapshot with --watch.
func watchCommand(c *cli.Context, take snapshot.Options) error {
	conditions, opt, err := watchOptions(c, take)
	if err != nil {
		return err
	}
	w, err := watch.New(conditions, opt)
	var usage *watch.UsageError
	if errors.As(err, &usage) {
		return usageError("--watch: %v", err)
	}
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer func() { _ = w.Close() }()
	run := &watching{
		watch: w, take: take, output: c.Path("output"), once: c.Bool("once") || c.Path("output") != "",
		json: c.String("format") == "json", interval: c.Duration("interval"), code: c.Int("error-exitcode"),
		command: newHook(c.String("exec")),
	}
	ctx := c.Context
	if d := c.Duration("duration"); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, errDuration)
		defer cancel()
	}
	err = run.run(ctx)
	run.command.wait()
	return err
}

// errDuration ends a watch at --duration.
var errDuration = errors.New("the duration is over")

func watchOptions(c *cli.Context, take snapshot.Options) ([]threshold.Condition, watch.Options, error) {
	opt := watch.Options{StallBudget: take.StallBudget}
	// The flag has split the text at commas, of which some may stand in a name.
	conditions, err := threshold.ParseList(strings.Join(c.StringSlice("watch"), ","))
	if err != nil {
		return nil, opt, usageError("--watch: %v", err)
	}
	opt.Hysteresis, err = parseHysteresis(c.String("hysteresis"))
	switch format := c.String("format"); {
	case err != nil:
		return nil, opt, usageError("--hysteresis: %v", err)
	case format != string(render.Text) && format != string(render.JSON):
		return nil, opt, usageError("--format %q is none of text, json", format)
	case c.Duration("interval") < leastInterval:
		return nil, opt, usageError("--interval %v is too short: at least %v", c.Duration("interval"), leastInterval)
	case c.Duration("duration") < 0:
		return nil, opt, usageError("--duration must not be negative")
	case c.Int("error-exitcode") < 1 || c.Int("error-exitcode") > 255:
		return nil, opt, usageError("--error-exitcode must be from 1 to 255")
	}
	return conditions, opt, nil
}

// parseHysteresis reads a share of a limit.
func parseHysteresis(text string) (float64, error) {
	margin, err := threshold.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	share, err := margin.Percent()
	if err == nil && share > 100 {
		err = errors.New("it must be at most 100%")
	}
	return share / 100, err
}

// run looks until the context ends, or the first crossing with --once.
func (w *watching) run(ctx context.Context) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		events := w.watch.Check(time.Now())
		if first {
			if err := unreadable(events); err != nil {
				return err
			}
		}
		crossing, err := w.report(events)
		if err != nil {
			return err
		}
		if crossing && w.once {
			return w.end(ctx, true)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return w.end(ctx, false)
		}
	}
}

// unreadable refuses to begin where a figure can't be read: nobody would be
// told that it was crossed.
func unreadable(events []watch.Event) error {
	var errs []error
	for _, e := range events {
		if e.Err != nil {
			errs = append(errs, fmt.Errorf("watch %s: %w", e.Condition, e.Err))
		}
	}
	return errors.Join(errs...)
}

// tell shows the events and runs the command at crossings.
func (w *watching) report(events []watch.Event) (crossing bool, err error) {
	for _, e := range events {
		if err := w.show(e); err != nil {
			return crossing, err
		}
		if e.Crossing {
			crossing, w.crossed = true, true
			w.command.start(e)
		}
	}
	return crossing, nil
}

// show prints an event: crossings and returns on stdout, figures that cannot be
// read, or can again, on stderr.
func (w *watching) show(e watch.Event) error {
	if e.Err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: warning: cannot tell whether %s: %v\n", e.Condition, render.Clean(e.Err.Error()))
	} else if e.Was == watch.Unknown {
		fmt.Fprintf(os.Stderr, "memtrace: %s can be read again: %s\n", e.Condition, figureText(e.Figure, e.Unit))
	}
	if w.json {
		return printJSONEvent(e)
	}
	word := "back   "
	switch {
	case e.Crossing:
		word = "crossed"
	case e.State != watch.Within || e.Was != watch.Crossed:
		return nil
	}
	_, err := fmt.Printf("%s %s %s: %s\n", e.Time.UTC().Format(time.RFC3339), word, e.Condition, figureText(e.Figure, e.Unit))
	return err
}

func figureText(v float64, unit watch.Unit) string {
	switch unit {
	case watch.Percent:
		return strconv.FormatFloat(v, 'f', 2, 64) + "%"
	case watch.Count:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return render.ShortSize(uint64(v))
}

var unitNames = map[watch.Unit]string{watch.Bytes: "bytes", watch.Percent: "percent", watch.Count: "count"}

// printJSONEvent prints a line; figure is null where it is not known.
func printJSONEvent(e watch.Event) error {
	line := struct {
		Time      time.Time `json:"time"`
		Condition string    `json:"condition"`
		State     string    `json:"state"`
		Was       string    `json:"was"`
		Crossing  bool      `json:"crossing"`
		Figure    *float64  `json:"figure"`
		Limit     *float64  `json:"limit"`
		Unit      string    `json:"unit,omitempty"`
		Error     string    `json:"error,omitempty"`
	}{Time: e.Time.UTC(), Condition: e.Condition, State: e.State.String(), Was: e.Was.String(), Crossing: e.Crossing}
	if e.Err != nil {
		line.Error = e.Err.Error()
	} else {
		line.Figure, line.Limit, line.Unit = &e.Figure, &e.Limit, unitNames[e.Unit]
	}
	text, err := render.EncodeJSON(line, "", false)
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// end takes the snapshot, and chooses the exit code.
func (w *watching) end(ctx context.Context, met bool) error {
	if met && w.output != "" {
		said := os.Stdout
		if w.json {
			said = os.Stderr
		}
		if err := takeAndSave(ctx, w.take, w.output, said); err != nil {
			return err
		}
	}
	timeUp := errors.Is(context.Cause(ctx), errDuration)
	switch unknown := w.watch.Unknown(); {
	case w.crossed && (met || timeUp):
		return &exitError{w.code, errQuiet}
	case len(unknown) > 0 && timeUp:
		return fmt.Errorf("watch: at the end it could not be told whether %s", strings.Join(unknown, ", "))
	}
	return nil
}

// hook runs a command for each crossing, one after the other.
type hook struct {
	text  string
	queue chan watch.Event // nil without a command
	done  chan struct{}
}

// maxQueue bounds how many crossings wait for a command that takes its time.
const maxQueue = 16

func newHook(text string) *hook {
	h := &hook{text: text}
	if text != "" {
		h.queue, h.done = make(chan watch.Event, maxQueue), make(chan struct{})
		go h.work()
	}
	return h
}

func (h *hook) work() {
	defer close(h.done)
	for e := range h.queue {
		cmd := exec.Command("/bin/sh", "-c", h.text)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "MEMTRACE_CONDITION="+e.Condition,
			"MEMTRACE_FIGURE="+strconv.FormatFloat(e.Figure, 'f', -1, 64), "MEMTRACE_LIMIT="+strconv.FormatFloat(e.Limit, 'f', -1, 64))
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "memtrace: warning: the command of --exec failed for %s: %v\n", e.Condition, err)
		}
	}
}

// start has the command run for a crossing.
func (h *hook) start(e watch.Event) {
	if h.queue == nil {
		return
	}
	select {
	case h.queue <- e:
	default:
		fmt.Fprintf(os.Stderr, "memtrace: warning: the command of --exec is too slow, and is not run for %s\n", e.Condition)
	}
}

// wait waits for the commands that are still to run. Nothing may be started after it.
func (h *hook) wait() {
	if h.queue != nil {
		close(h.queue)
		<-h.done
	}
}
