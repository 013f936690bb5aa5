// Command memtrace tells why a running process uses the memory it uses, and
// which call sites leak it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/launch"
)

// Exit codes; README.md lists them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitFound       = 23 // a --fail-on condition was met, as LeakSanitizer's
	exitUnsupported = 77
)

// exitError ends memtrace with a code of its own. An empty message prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

var errQuiet = errors.New("") // for an exit code that needs no message

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func init() {
	runtime.LockOSThread() // launch.Shim must exec from the main thread
}

func main() {
	tracer.ServeCalibration()
	launch.Shim()
	runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args))
}

// secondSignalAfter is how long after the first signal others are ignored: timeout(1) and
// shells may send it twice.
const secondSignalAfter = time.Second

// endAtSecondSignal ends memtrace where the first signal has not: what reads its
// output may stand still. The kernel takes the probes off.
func endAtSecondSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	for began := time.Now(); ; {
		if s, ok := (<-signals).(syscall.Signal); ok && time.Since(began) > secondSignalAfter {
			fmt.Fprintln(os.Stderr, "memtrace: ended by a second signal, without the last Report")
			os.Exit(128 + int(s))
		}
	}
}

// run runs memtrace and returns its exit code.
func run(ctx context.Context, args []string) int {
	app := newApp()
	app.Metadata = map[string]any{argumentsKey: args}
	cli.HelpPrinter = showHelp
	app.CommandNotFound = noHelp
	err := app.RunContext(ctx, flagsFirst(args, savedCommands()))
	if unknown, ok := app.Metadata[unknownKey].(error); ok {
		err = unknown
	}
	if err == nil {
		return 0
	}
	code := exitCode(err)
	if text := strings.TrimSpace(err.Error()); text != "" {
		if code == exitUsage {
			text = strings.ReplaceAll(text, "\n", " ")
		}
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.CleanLines(shortened(text)))
	}
	return code
}

func exitCode(err error) int {
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, tracer.ErrNotSupported), errors.Is(err, tracer.ErrNotPermitted):
		return exitUnsupported
	}
	return exitFailed
}

func newApp() *cli.App {
	return withUsageHelp(&cli.App{
		Name:      "memtrace",
		Usage:     "tells why a running process uses its memory, and what leaks it",
		UsageText: "memtrace -p PID [options]\nmemtrace run [options] -- COMMAND [ARGUMENT...]\nmemtrace COMMAND [options]",
		Description: "memtrace attaches eBPF probes to malloc, free and page faults of a running process. Nothing is preloaded, rebuilt or " +
			"restarted, and the process runs on unharmed however memtrace ends.",
		Version:         version,
		HideHelpCommand: true,
		Flags:           traceFlags(),
		Action:          traceCommand,
		Before: func(c *cli.Context) error {
			if first := c.Args().First(); first != "run" && first != "record" { // there, signals are the command's
				context.AfterFunc(c.Context, endAtSecondSignal)
			}
			return nil
		},
		Commands: append([]*cli.Command{
			{
				Name: "trace", Usage: "trace running processes (also without the word trace)",
				UsageText: "memtrace trace -p PID[,PID...] [options]\nmemtrace -p PID[,PID...] [options]", Description: traceDescription, Flags: traceFlags(), Action: traceCommand,
			},
			{
				Name: "run", Usage: "start a command under trace and report when it ends",
				UsageText: "memtrace run [options] -- COMMAND [ARGUMENT...]", Description: runDescription, Flags: runFlags(), Action: runCommand,
			},
			{
				Name: "record", Usage: "record a trace into a file, to ask it anything later",
				UsageText: "memtrace record -o FILE -p PID[,PID...] [options]\nmemtrace record -o FILE [options] -- COMMAND [ARGUMENT...]", Description: recordDescription, Flags: recordFlags(), Action: recordCommand,
			},
			{
				Name: "top", Usage: "show the memory of the whole machine, live",
				UsageText: "memtrace top [options]", Description: topDescription + top.ColumnHelp(), Flags: topFlags(), Action: topCommand,
			},
			{
				Name: "leaks", Usage: "find what a running process has leaked, without a trace",
				UsageText: "memtrace leaks -p PID[,PID...] [options]", Description: leaksDescription, Flags: leaksFlags(), Action: leaksCommand,
			},
			{
				Name: "doctor", Usage: "show what this kernel and these privileges allow",
				UsageText: "memtrace doctor [-p PID]", Flags: doctorFlags(), Action: doctorCommand,
			},
		}, append(append(snapshotCommands(), savedCommands()...), helpCommands()...)...),
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // main alone exits
	})
}
