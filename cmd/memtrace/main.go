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

// version is set by the linker; see the Makefile.
var version = "dev"

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
	err := newApp().RunContext(ctx, flagsFirst(args, savedCommands()))
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.CleanLines(strings.TrimSpace(text)))
	}
	return exitCode(err)
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
	return &cli.App{
		Name:      "memtrace",
		Usage:     "tell why a running process uses its memory, and what leaks it",
		UsageText: "memtrace -p PID [flags]\nmemtrace run [flags] -- COMMAND [ARGUMENT...]\nmemtrace leaks -p PID\nmemtrace top [flags]\nmemtrace doctor [-p PID]",
		Description: "memtrace attaches eBPF probes to a running process's malloc, free and realloc and to its page\n" +
			"faults, with no preload, no rebuild and no restart, and shows which call sites hold its memory,\n" +
			"where its resident pages are, and which sites look like leaks. The process runs on unharmed\n" +
			"however memtrace ends.\n\n" +
			"Examples:\n" +
			"  sudo memtrace -p 1234                 live tables until Ctrl-C\n" +
			"  sudo memtrace -p 1234 -d 30s          30 seconds, then the result\n" +
			"  sudo memtrace -p 1234 --format json   one JSON Report a second\n" +
			"  sudo memtrace -p 1234 --events --min-size 1048576\n" +
			"  sudo memtrace run -- ./server --port 80\n" +
			"  sudo memtrace top                     all processes, live: which one to trace\n" +
			"  sudo memtrace leaks -p 1234           what is leaked by now, without a trace\n" +
			"  sudo memtrace doctor                  what this kernel allows",
		Version:              version,
		HideHelpCommand:      true,
		EnableBashCompletion: true,
		Flags:                traceFlags(),
		Action:               traceCommand,
		Before: func(c *cli.Context) error {
			if c.Args().First() != "run" { // there, signals are the command's
				context.AfterFunc(c.Context, endAtSecondSignal)
			}
			return nil
		},
		Commands: append([]*cli.Command{
			{
				Name: "trace", Usage: "trace running processes (the default command)",
				UsageText: "memtrace trace -p PID[,PID...] [flags]", Flags: traceFlags(), Action: traceCommand,
				OnUsageError: onUsageError,
			},
			{
				Name: "run", Usage: "start a command under trace from its first instruction",
				UsageText: "memtrace run [flags] -- COMMAND [ARGUMENT...]", Flags: runFlags(), Action: runCommand,
				OnUsageError: onUsageError,
			},
			{
				Name: "top", Usage: "show the memory of the whole machine, live or once",
				UsageText: "memtrace top [flags]", Description: topDescription + top.ColumnHelp(), Flags: topFlags(), Action: topCommand,
				OnUsageError: onUsageError,
			},
			{
				Name: "leaks", Usage: "say what a running process that was never traced has leaked so far",
				UsageText: "memtrace leaks -p PID[,PID...] [flags]", Description: leaksDescription, Flags: leaksFlags(), Action: leaksCommand,
				OnUsageError: onUsageError,
			},
			{
				Name: "doctor", Usage: "say what this kernel and these privileges allow, and what to do about the rest",
				UsageText: "memtrace doctor [-p PID]", Flags: doctorFlags(), Action: doctorCommand,
				OnUsageError: onUsageError,
			},
		}, append(snapshotCommands(), savedCommands()...)...),
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // main alone exits
	}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	name := "memtrace"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "memtrace" {
		name += " " + c.Command.Name
	}
	return usageError("%v (%s --help lists the flags)", err, name)
}

// refuseArguments refuses what is left after the flags: a mistyped command, or
// a flag's value after a stray word, would otherwise be ignored without a word.
func refuseArguments(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	arg := c.Args().First()
	for _, rest := range c.Args().Slice() {
		if strings.HasPrefix(rest, "-") {
			return usageError("the flag %s comes after the argument %q; put flags first", rest, arg)
		}
	}
	return usageError("unknown command or argument %q (memtrace --help lists the commands)", arg)
}
