package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/figures"
)

// bystanderName is a loop that nobody traces, on a machine where memtrace traces
// another process of the same program and C library.
const bystanderName = "untraced, beside a process that is traced"

// beside is a process that memtrace traces meanwhile.
type beside struct {
	other  *loop
	tracer tool
}

func (s *settings) traceAnother(int) (tool, error) {
	other, err := startLoop(nil, filepath.Join(s.programs, "churn"), loopShape{depth: depth, threads: 1, pairs: 1})
	if err != nil {
		return nil, err
	}
	m, err := startMemtrace(s.memtrace, other.pid, s.more)
	if err != nil {
		other.kill()
		return nil, err
	}
	return &beside{other: other, tracer: m}, nil
}

func (b *beside) stop() error {
	_, _, err := b.other.run()
	err = errors.Join(err, b.tracer.stop())
	b.other.kill()
	return err
}

// bystanderText says what being beside a traced process costs.
func (r *results) bystanderText(b *strings.Builder) {
	of, to := r.index(bystanderName), r.index("untraced")
	if of < 0 || to < 0 {
		return
	}
	fmt.Fprintf(b, "\n## What it costs processes that are not traced\n\nThe loop beside another process of the same program and C library, which memtrace traces, of the loop alone:\n\n| threads | median | middle half |\n|---:|---:|---|\n")
	for _, threads := range r.threads {
		all := r.ratios(threads, of, to)
		fmt.Fprintf(b, "| %d | %s | %.3f to %.3f |\n", threads, figures.Ratio(all, 3), figures.Quantile(all, 0.25), figures.Quantile(all, 0.75))
	}
}
