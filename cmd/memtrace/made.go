package main

import (
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
)

func noCommandLinesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "no-command-lines", Usage: "leave memtrace's command line out of recordings and Reports"}
}

// madeNow says where a Report comes from that is made now; with the command line, unless it is to be left out.
func madeNow(command bool) *report.Made {
	m := &report.Made{At: time.Now().UTC().Format(report.MadeFormat), Version: version}
	m.Host, _ = os.Hostname() // which may be hidden
	if command {
		m.Command = os.Args
	}
	return m
}

// madeOf says where the Report of a recording comes from, as of a time.
func madeOf(r *recording.Reader, at uint64) *report.Made {
	h := r.Header()
	return &report.Made{At: h.Time(at).UTC().Format(report.MadeFormat), Host: h.Host, Version: h.Version, Command: h.Command}
}
