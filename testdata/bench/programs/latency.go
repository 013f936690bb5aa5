package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/figures"
)

// latency is the 99th percentile, in ms, of the transactions in pgbench's logs:
// the third word of each line, in µs (pgbench's manual, Per-Transaction Logging).
func latency(prefix string) (float64, error) {
	logs, err := filepath.Glob(prefix + "*")
	if err != nil {
		return 0, err
	}
	var all []float64
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) < 3 {
				return 0, fmt.Errorf("pgbench's log has a line %q", line)
			}
			us, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				return 0, fmt.Errorf("pgbench's log has a line %q", line)
			}
			all = append(all, us/1000)
		}
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("pgbench left no log at %s*", prefix)
	}
	return figures.Quantile(all, 0.99), nil
}
