// Command memtrace tells why a running process uses the memory it uses, and
// which call sites leak it.
//
// It is built in two ways. On Linux it has all commands: main.go lists them. Elsewhere,
// and with the tag viewer, it shows what was recorded: viewer.go. Files that only the first
// has begin with linux && !viewer.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
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
	configure(app, args)
	cli.HelpPrinter = showHelp
	app.CommandNotFound = noHelp
	err := app.RunContext(ctx, flagsFirst(args, commandsWithArguments(app)))
	if unknown, ok := app.Metadata[unknownKey].(error); ok {
		err = unknown
	}
	if err == nil {
		return 0
	}
	code := exitCode(err)
	if text := strings.TrimSpace(err.Error()); text != "" {
		if code == exitUsage {
			text = whence(app, strings.ReplaceAll(text, "\n", " "))
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
	case unsupported(err):
		return exitUnsupported
	}
	return exitFailed
}
