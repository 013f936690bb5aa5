package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/export/blocks"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
)

// exportFormats are all formats of memtrace export.
func exportFormats() []string { return slices.Concat(export.Formats(), blocks.Formats()) }

const needsRecording = "heaptrack, firefox and perfetto show single blocks, which a Report has not"

// exportBlocks writes the blocks of a recording.
func exportBlocks(c *cli.Context) error {
	o := blocks.Options{Format: blocks.Format(c.String("format")), Version: version, Compression: blocks.CompressionOf(c.Path("output"))}
	if err := blockUsage(c, &o); err != nil {
		return err
	}
	memory, err := memoryLimit(c)
	if err != nil {
		return err
	}
	keepWithin(memory)
	name, at := splitInstant(c.Args().First())
	at, err = askedInstant(c, at)
	if err != nil {
		return err
	}
	f, err := openAsCaller(name)
	if err != nil {
		return fmt.Errorf("read a recording: %w", withInstantMeant(name, err))
	}
	defer func() { _ = f.Close() }()
	r, until, err := openBlocks(c.Context, f, name, at)
	if err != nil {
		return err
	}
	sites, live := memoryShares(memory)
	if o.Config, err = r.Header().Config.Analyzer(sites, live); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	var notes []string
	write := func(w io.Writer) error {
		notes, err = blocks.Write(w, blockSource(r, until), o)
		return err
	}
	if err := saveBlocks(c.Path("output"), write); err != nil {
		return fmt.Errorf("export %s as %s: %w", name, o.Format, err)
	}
	for _, note := range notes {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s: %s\n", render.Clean(name), note)
	}
	return nil
}

// blockUsage says what is wrong with the flags, and takes the PID from them.
func blockUsage(c *cli.Context, o *blocks.Options) error {
	if err := o.Check(); err != nil {
		return usageError("%v", err)
	}
	switch pid, out := c.Int("pid"), c.Path("output"); {
	case c.NArg() != 1 || c.Args().First() == "-":
		return usageError("%s is written of one recording, which is a file: memtrace export FILE --format %s", o.Format, o.Format)
	case asksFor(c, "kind") || asksFor(c, "inverted"):
		return usageError("%s has all blocks: leave --kind and --inverted out", o.Format)
	case c.IsSet("pid") && (pid <= 0 || pid > 1<<30):
		return usageError("--pid %d is no PID", pid)
	case (out == "" || out == "-") && o.Format == blocks.Perfetto && term.IsTerminal(int(os.Stdout.Fd())):
		return usageError("perfetto would write a binary file to the terminal: name a file with -o FILE")
	default:
		o.PID = uint32(pid)
	}
	return nil
}

// openBlocks opens a recording, and says until when it is to be played, ns of CLOCK_MONOTONIC. A saved Report is none.
func openBlocks(ctx context.Context, f *os.File, name, at string) (*recording.Reader, uint64, error) {
	r, err := readRecording(ctx, f, name)
	switch {
	case errors.Is(err, recording.ErrNotRecording):
		return nil, 0, fmt.Errorf("%w; %s: memtrace record -o FILE makes a recording", err, needsRecording)
	case err != nil:
		return nil, 0, err
	case at == "":
		return r, recording.End, nil
	}
	when, err := parseInstant(at)
	if err != nil {
		return nil, 0, usageError("%v", err)
	}
	until, err := when.of(r)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s at %s: %w", name, at, err)
	}
	return r, until, nil
}

// blockSource plays a recording until an instant, ns of CLOCK_MONOTONIC.
func blockSource(r *recording.Reader, until uint64) blocks.Source {
	return func(a *analyzer.Analyzer, told func(input.Input)) ([]string, error) {
		return r.Play(a, until, told)
	}
}

// saveBlocks writes to a file, or to stdout as it comes: it may be more than memory holds.
func saveBlocks(out string, write func(io.Writer) error) error {
	if out != "" && out != "-" {
		return wholeFile(out).save(write)
	}
	return write(os.Stdout)
}

// blocksNeedRecording is the error for --export FORMAT=FILE of a trace.
func blocksNeedRecording(format, path string) error {
	if !blocks.IsFormat(format) {
		return nil
	}
	return fmt.Errorf("%s: record the trace with memtrace record -o FILE, then memtrace export FILE --format %s -o %s",
		needsRecording, format, filepath.Base(strings.TrimSpace(path)))
}
