//go:build linux && !viewer

package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/tracer"
)

func sampleFlag() cli.Flag {
	return &cli.StringFlag{Name: "sample-bytes", Value: "0", Usage: "record one allocation per so many bytes on average, such as 64KiB, and estimate the rest; 0: record all"}
}

// sampleInterval reads --sample-bytes.
func sampleInterval(c *cli.Context) (uint32, error) {
	text := c.String("sample-bytes")
	if text == "" {
		return 0, nil // not a flag of this command
	}
	bytes, err := threshold.ParseSize(text)
	if err != nil {
		return 0, usageError("--sample-bytes: %v", err)
	}
	if bytes > math.MaxUint32 {
		return 0, usageError("--sample-bytes %s is more than 4 GiB", text)
	}
	return uint32(bytes), nil
}

// sampleOf is whom the analyzer tells of the sample's blocks; nil where every block is recorded.
func sampleOf(t *tracer.Tracer) analyzer.Sample {
	if !t.Config().Sampling {
		return nil
	}
	return t
}

// unseenLeaks says which leaks a sample may well have missed: one of as many
// bytes as lie between samples is missed with a chance of 1/e.
func (s *session) unseenLeaks(r *report.Report) []string {
	if !s.leaks || r.Sampling == nil || len(r.Sampling.Intervals) == 0 {
		return nil
	}
	if !s.tracer.Config().Sampling && r.Pressure != nil {
		return []string{pressedLeaks(r.Pressure)}
	}
	n := float64(slices.Max(r.Sampling.Intervals))
	return []string{fmt.Sprintf("leaks were looked for in a sample: a leak of %s in all goes unseen in 37%% of checks, one of %s in 0.7%%",
		report.HumanBytes(n), report.HumanBytes(5*n))}
}
