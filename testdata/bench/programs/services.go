package main

import (
	"encoding/csv"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/testdata/bench/workload"
)

// redisRequests are those of each command.
const redisRequests = 60_000

func redisLoad(dir string) (answer, error) {
	sock := filepath.Join(dir, "sock")
	if err := workload.Listens("unix", sock); err != nil {
		return answer{}, err
	}
	out, err := exec.Command("redis-benchmark", "-s", sock, "--csv", "-n", strconv.Itoa(redisRequests), "-r", "20000", "-d", "100",
		"-t", "set,get,lpush,hset").Output()
	if err != nil {
		return answer{}, fmt.Errorf("redis-benchmark: %w", err)
	}
	return readRedisBenchmark(string(out))
}

// readRedisBenchmark sums up a table with a line for each command: the rate of
// all, and the greatest of their 99th percentiles.
func readRedisBenchmark(text string) (a answer, err error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		return a, fmt.Errorf("read what redis-benchmark says: %q: %v", text, err)
	}
	rps, p99 := slices.Index(rows[0], "rps"), slices.Index(rows[0], "p99_latency_ms")
	if rps < 0 || p99 < 0 {
		return a, fmt.Errorf("redis-benchmark gives no rps or p99_latency_ms but %q", rows[0])
	}
	seconds := 0.0
	for _, row := range rows[1:] {
		rate, err := strconv.ParseFloat(row[rps], 64)
		if err != nil || rate <= 0 {
			return a, fmt.Errorf("redis-benchmark's rate %q", row[rps])
		}
		slow, err := strconv.ParseFloat(row[p99], 64)
		if err != nil {
			return a, fmt.Errorf("redis-benchmark's latency %q", row[p99])
		}
		seconds += 1 / rate
		a.p99 = max(a.p99, slow)
	}
	a.rate = float64(len(rows)-1) / seconds
	return a, nil
}

// Transactions of each of two connections.
const (
	selectTransactions = 25_000
	tpcbTransactions   = 5_000
)

// postgres makes a cluster with pgbench's tables, which each turn has a copy of.
func postgres(shared string) (func(string) ([]string, error), error) {
	if err := workload.InitPostgres(shared); err != nil {
		return nil, err
	}
	argv, err := workload.PostgresServer(shared)
	if err != nil {
		return nil, err
	}
	server := exec.Command(argv[0], argv[1:]...)
	if err := server.Start(); err != nil {
		return nil, err
	}
	filled := workload.FillPostgres(shared)
	stopped := server.Process.Signal(unix.SIGINT)
	if err := server.Wait(); filled == nil && stopped == nil && err != nil {
		return nil, fmt.Errorf("fill the tables: %w", err)
	}
	return func(dir string) ([]string, error) {
		if err := workload.Run("chown", "postgres:", dir); err != nil {
			return nil, err
		}
		if err := workload.Run("cp", "-a", filepath.Join(shared, "data"), dir); err != nil {
			return nil, err
		}
		return workload.PostgresServer(dir)
	}, filled
}

var pgbenchTPS = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench is a load of so many transactions, whose latencies it keeps.
func pgbench(args ...string) func(dir string) (answer, error) {
	return func(dir string) (a answer, err error) {
		if err := workload.Listens("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
			return a, err
		}
		if err := ready(dir); err != nil {
			return a, err
		}
		log := filepath.Join(dir, "transactions")
		text, err := workload.Pgbench(dir, slices.Concat([]string{"-n", "-c", "2", "-l", "--log-prefix", log}, args)...)
		if err != nil {
			return a, err
		}
		found := pgbenchTPS.FindStringSubmatch(text)
		if found == nil {
			return a, fmt.Errorf("pgbench tells no rate: %s", text)
		}
		if a.rate, err = strconv.ParseFloat(found[1], 64); err != nil {
			return a, err
		}
		a.p99, err = latency(log)
		return a, err
	}
}

// ready waits until the server, which listens, lets clients in.
func ready(dir string) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := workload.Pgbench(dir, "-n", "-S", "-t", "1")
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
