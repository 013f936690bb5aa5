package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*b }

// A table of redis-benchmark 7.0.
func TestRedisBenchmarkIsSummedUp(t *testing.T) {
	const head = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	a, err := readRedisBenchmark(head +
		`"SET","100000.00","0.263","0.064","0.255","0.335","0.415","1.055"` + "\n" +
		`"GET","50000.00","0.463","0.064","0.455","0.535","0.815","1.455"` + "\n")
	if err != nil {
		t.Fatal(err)
	}
	// Of each command equally many: 2 requests take 1/100,000 s and 1/50,000 s.
	if !near(a.rate, 2/(1/100_000.+1/50_000.)) || a.p99 != 0.815 {
		t.Errorf("the rate is %v and the 99th percentile %v ms, not 66,667 and 0.815", a.rate, a.p99)
	}
	for _, text := range []string{"", head, "\"test\",\"rps\"\n\"SET\",\"1\"\n", head + `"SET","0","1","1","1","1","1","1"` + "\n"} {
		if a, err := readRedisBenchmark(text); err == nil {
			t.Errorf("%q gives %v", text, a)
		}
	}
}

// Lines of pgbench 15: client, transaction, latency in µs, script, time.
func TestLatencyIsOfAllLogs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	write := func(name, text string) {
		if err := os.WriteFile(log+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if p99, err := latency(log); err == nil {
		t.Errorf("without a log it is %v", p99)
	}
	write(".1", "0 1 1000 0 1700000000 1\n0 2 2000 0 1700000000 2\n")
	write(".1.1", "1 1 3000 0 1700000000 1\n")
	p99, err := latency(log)
	if err != nil || !near(p99, 2.98) { // between 2 and 3 ms, at 98 % of the way
		t.Errorf("the 99th percentile is %v ms (%v), not 2.98", p99, err)
	}
	write(".2", "1 1\n")
	if p99, err := latency(log); err == nil {
		t.Errorf("with a broken line it is %v", p99)
	}
}
