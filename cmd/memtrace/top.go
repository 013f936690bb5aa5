//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/cmd/memtrace/tui"
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top/live"
	"github.com/memtrace/memtrace/procfs"
)

const topDescription = `Shows the memory of the whole machine, live: processes with PSS and USS, programs, threads, the memory map, sharing,
NUMA nodes, cgroups, components and mappings. Key h explains keys, marks and columns; Enter traces the process under the cursor.

Where stdout is no terminal, and with --once or --format json or csv, it prints the view once.

Views, their keys and their columns (for --sort):

`

func topFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "view", Value: string(top.Processes), Usage: "what to show"},
		&cli.IntFlag{Name: "pid", Aliases: []string{"p"}, Usage: "the process that the views threads and mappings show"},
		&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "refresh this often; with --once: measure CPU and changes over it"},
		&cli.StringFlag{Name: "sort", Usage: "order by this column; -COLUMN reverses it"},
		&cli.StringFlag{Name: "filter", Usage: "show only rows with these words; name:W, pid:N, user:U, cgroup:C and !word work too"},
		&cli.BoolFlag{Name: "once", Usage: "print the view once"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the view, printed once"},
		&cli.Int64Flag{Name: "threshold", Value: 1 << 20, Usage: "show changes of PSS in bold from this size on; 0: never"},
		&cli.DurationFlag{Name: "stall-budget", Value: 2 * time.Millisecond, Usage: "hold a process's memory lock at most this long per second; 0: no limit"},
	}
}

// topSettings are the flags of top, checked.
type topSettings struct {
	view      top.View
	pid       int
	interval  time.Duration
	sort      string
	reverse   bool
	filter    top.Filter
	once      bool
	measure   bool // with once: over the interval
	format    string
	threshold int64
	budget    time.Duration
}

// leastTopInterval is the shortest time between two looks at the machine.
const leastTopInterval = 100 * time.Millisecond

func readTopSettings(c *cli.Context) (topSettings, error) {
	s := topSettings{
		view: top.View(c.String("view")), pid: c.Int("pid"), interval: c.Duration("interval"),
		sort: c.String("sort"), once: c.Bool("once"), measure: c.IsSet("interval"),
		format: c.String("format"), threshold: c.Int64("threshold"), budget: c.Duration("stall-budget"),
	}
	s.once = s.once || s.format != "text" || !term.IsTerminal(int(os.Stdout.Fd())) || !tui.Usable(os.Stdout, os.Getenv)
	if s.once && s.view.OfOne() && s.pid == 0 && !c.IsSet("view") {
		s.view = top.Processes // a configuration's is for when there is a process to show
	}
	s.sort, s.reverse = strings.CutPrefix(s.sort, "-")
	if !c.IsSet("sort") && !slices.Contains(s.view.SortKeys(), s.sort) {
		s.sort, s.reverse = "", false // a configuration's is for the views that have the column
	}
	var err error
	if s.filter, err = top.ParseFilter(c.String("filter")); err != nil {
		return s, usageError("--%v", err)
	}
	return s, s.check()
}

func (s *topSettings) check() error {
	switch {
	case !slices.Contains(top.Views(), string(s.view)):
		return noneOf("--view", string(s.view), top.Views())
	case s.sort != "" && !slices.Contains(s.view.SortKeys(), s.sort):
		return usageError("--sort %q is none of the columns of view %s: %s", s.sort, s.view, strings.Join(s.view.SortKeys(), ", "))
	case !slices.Contains(top.Formats(), s.format):
		return noneOf("--format", s.format, top.Formats())
	case s.interval < leastTopInterval:
		return usageError("--interval %v is too short: at least %v", s.interval, leastTopInterval)
	case s.threshold < 0:
		return usageError("--threshold must not be negative")
	case s.budget < 0:
		return usageError("--stall-budget must not be negative")
	case s.pid < 0:
		return usageError("--pid %d is not a process ID", s.pid)
	}
	if s.once && s.view.OfOne() && s.pid == 0 {
		return usageError("--view %s shows one process: name it with -p PID", s.view)
	}
	return nil
}

func topCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	s, err := readTopSettings(c)
	if err != nil {
		return err
	}
	source, err := live.Open(live.Options{StallBudget: s.budget})
	if err != nil {
		return err
	}
	if s.once {
		err = topOnce(c.Context, source, s)
	} else {
		err = topLive(source, s)
	}
	return errors.Join(err, source.Close())
}

// topOnce prints one Snapshot; where an interval was given, the second of two.
func topOnce(ctx context.Context, source top.Source, s topSettings) error {
	var history top.History
	want := top.Want{View: s.view, PID: s.pid}
	snapshot, err := source.Read(ctx, want)
	if err != nil {
		return err
	}
	history.Add(snapshot)
	if s.measure {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.interval):
		}
		if snapshot, err = source.Read(ctx, want); err != nil {
			return err
		}
		history.Add(snapshot)
	}
	if snapshot.Of.Problem != "" {
		return errors.New(snapshot.Of.Problem)
	}
	return top.Write(os.Stdout, snapshot, top.WriteOptions{
		View: s.view, Format: s.format, Sort: s.sort, Reverse: s.reverse, Filter: s.filter,
		Width: terminalWidth(), Colour: term.IsTerminal(int(os.Stdout.Fd())) && tui.UseColor(os.Getenv), Getenv: os.Getenv,
	})
}

// topLive shows the live view until the user or SIGTERM ends it.
func topLive(source top.Source, s topSettings) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var tracing atomic.Bool
	defer endOnSignal(cancel, &tracing)()
	return top.Run(ctx, top.Options{
		Source: source, View: s.view, PID: s.pid, Interval: s.interval, Sort: s.sort, Reverse: s.reverse, Filter: s.filter,
		Threshold: s.threshold, Colour: tui.UseColor(os.Getenv), Getenv: os.Getenv,
		Trace:   func(pid int, start uint64) (*exec.Cmd, error) { return traceInTerminal(ctx, pid, start, s.interval) },
		Tracing: tracing.Store,
		Gone:    func() bool { _, _, err := term.GetSize(int(os.Stdout.Fd())); return err != nil },
	})
}

// endOnSignal cancels on SIGTERM and SIGINT. Ctrl-C during a trace goes to all
// that run in the terminal, and is meant for the trace alone.
func endOnSignal(cancel func(), tracing *atomic.Bool) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				if sig != os.Interrupt || !tracing.Load() {
					cancel()
				}
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// traceInTerminal is memtrace itself, tracing the process that has that PID
// and start time.
func traceInTerminal(ctx context.Context, pid int, start uint64, interval time.Duration) (*exec.Cmd, error) {
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		return nil, err
	}
	p, err := fs.Process(pid)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer p.Close()
	st, err := p.Stat()
	if err == nil && start != 0 && st.StartTime != start {
		err = procfs.ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("trace process %d: %w", pid, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("trace process %d: find memtrace's own program: %w", pid, err)
	}
	cmd := exec.CommandContext(ctx, self, "trace", "-p", strconv.Itoa(pid), "-i", interval.String())
	cmd.Env = append(os.Environ(), startedByTop+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd, nil
}
