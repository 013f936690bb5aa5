//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/tracer"
)

func main() {
	tracer.ServeCalibration()
	ctx, stop := catchInterrupts()
	defer stop()
	os.Exit(run(ctx, os.Args))
}

// madeFor is what --version says of where this runs.
const madeFor = "for Linux " + kernelFloor + " and newer"

// topicNames are the texts of memtrace help TOPIC, in the order of their importance.
var topicNames = []string{"leaks", "ci", "cost", "symbols", "allocators", "containers", "config"}

// noManual says that there are no manual pages of this build.
const noManual = false

func ownPages() map[string]page { return pages() }

// unsupported reports whether an error says that the kernel or the privileges do not allow it.
func unsupported(err error) bool {
	return errors.Is(err, tracer.ErrNotSupported) || errors.Is(err, tracer.ErrNotPermitted)
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
				Name: "serve", Usage: "watch all services for weeks, and tell Prometheus",
				UsageText: "memtrace serve [--config FILE] [--listen ADDRESS:PORT]", Description: serveDescription, Flags: serveFlags(), Action: serveCommand,
			},
			{
				Name: "leaks", Usage: "find what a running process has leaked, without a trace",
				UsageText: "memtrace leaks -p PID[,PID...] [options]", Description: leaksDescription, Flags: leaksFlags(), Action: leaksCommand,
			},
			{
				Name: "doctor", Usage: "show what this kernel and these privileges allow",
				UsageText:   "memtrace doctor [-p PID]\nmemtrace doctor --serve [--config FILE]",
				Description: doctorDescription, Flags: doctorFlags(), Action: doctorCommand,
			},
			{
				Name: "config", Usage: "show where flags have their defaults from",
				UsageText: "memtrace config [COMMAND] [--format FORMAT]\nmemtrace config --check FILE", Description: configDescription, Flags: configFlags(), Action: configCommand,
			},
		}, append(append(snapshotCommands(), savedCommands()...), helpCommands()...)...),
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // main alone exits
	})
}
