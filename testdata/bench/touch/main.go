// Command touch measures what --probes none costs, or with -frees what --probes allocs does: a loop of malloc and free, a C++ compiler and redis, each alone
// and traced in turns, and writes the medians into docs/benchmarks.md.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

const (
	source  = "testdata/bench/touch/measured"
	timesIn = "MEMTRACE_BENCH_TIMES" // a file for a child's processor time
)

func main() {
	if file := os.Getenv(timesIn); file != "" {
		os.Exit(timed(file, os.Args[1:]))
	}
	rounds := flag.Int("rounds", 5, "how often each is measured")
	out := flag.String("o", "", "document to write into")
	frees := flag.Bool("frees", false, "measure --probes allocs beside a full trace instead")
	flag.Parse()
	name, measured := "touch", measure
	if *frees {
		name, measured = "frees", measureFrees
	}
	text, err := measured(*rounds)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
	if *out != "" {
		if err := section.Write(*out, name, text); err != nil {
			log.Fatal(err)
		}
	}
}

// timed runs a command and writes its processor time into a file, seconds. memtrace's own is not in it.
func timed(file string, args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		log.Print(err)
		return 1
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		log.Print(err)
		return 1
	}
	seconds := time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	if err := os.WriteFile(file, []byte(fmt.Sprint(seconds)), 0o644); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// A figure is one that is measured alone and traced.
type figure struct {
	name, unit    string
	alone, traced []float64
}

func measure(rounds int) (string, error) {
	dir, err := os.MkdirTemp("", "touch")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	loop := filepath.Join(dir, "loop")
	if text, err := exec.Command("cc", "-O1", "-fno-builtin", "-o", loop, source+"/loop.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the loop: %w: %s", err, text)
	}
	figures := []*figure{
		{name: "malloc and free in a loop, a pair", unit: "ns"}, {name: "cc1plus, its processor time", unit: "s"},
		{name: "redis SET, requests a second", unit: ""}, {name: "redis SET, 99th percentile", unit: "ms"},
	}
	for range rounds {
		for _, traced := range []bool{false, true} {
			got, err := measureOnce(dir, loop, traced)
			if err != nil {
				return "", err
			}
			for i, v := range got {
				if traced {
					figures[i].traced = append(figures[i].traced, v)
				} else {
					figures[i].alone = append(figures[i].alone, v)
				}
			}
		}
	}
	return table(figures, rounds), nil
}

// measureOnce returns the figures in the order of the table.
func measureOnce(dir, loop string, traced bool) ([]float64, error) {
	pair, err := runLoop(loop, traced)
	if err != nil {
		return nil, fmt.Errorf("measure the loop: %w", err)
	}
	compile, err := runCompiler(dir, traced)
	if err != nil {
		return nil, fmt.Errorf("measure the compiler: %w", err)
	}
	rate, p99, err := runRedis(dir, traced)
	if err != nil {
		return nil, fmt.Errorf("measure redis: %w", err)
	}
	return []float64{pair, compile, rate, p99}, nil
}

// under is a command, run under memtrace where it is traced.
func under(traced bool, args ...string) *exec.Cmd {
	if traced {
		args = append([]string{"./memtrace", "run", "--probes", "none", "--report", os.DevNull, "--"}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}

func runLoop(loop string, traced bool) (float64, error) {
	text, err := under(traced, loop).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}

func runCompiler(dir string, traced bool) (float64, error) {
	compiler, err := compilerCommand("-O2")
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "times")
	cmd := under(traced, append([]string{self}, compiler...)...)
	cmd.Env = append(os.Environ(), timesIn+"="+file)
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(text), 64)
}

// compilerCommand compiles a C++ file without a driver, how says how far.
func compilerCommand(how string) ([]string, error) {
	compiler, err := exec.Command("g++", "-print-prog-name=cc1plus").Output()
	if err != nil {
		return nil, err
	}
	return []string{strings.TrimSpace(string(compiler)), "-quiet", how, "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", source + "/unit.cc", "-o", os.DevNull}, nil
}

const redisPort = "16399"

// runRedis measures a server that is attached to while it runs.
func runRedis(dir string, traced bool) (rate, p99 float64, err error) {
	server := exec.Command("redis-server", "--port", redisPort, "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		return 0, 0, err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	if err := awaitRedis(); err != nil {
		return 0, 0, err
	}
	if _, _, err := loadRedis("20000"); err != nil { // it has its memory now
		return 0, 0, err
	}
	if traced {
		tracer := exec.Command("./memtrace", "-p", strconv.Itoa(server.Process.Pid), "--probes", "none", "--format", "json")
		out, err := tracer.StdoutPipe()
		if err != nil {
			return 0, 0, err
		}
		if err := tracer.Start(); err != nil {
			return 0, 0, err
		}
		defer func() { _ = tracer.Process.Signal(os.Interrupt); _ = tracer.Wait() }()
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has attached
			return 0, 0, err
		}
		go func() { _, _ = (&bytes.Buffer{}).ReadFrom(out) }()
	}
	return loadRedis("150000")
}

// awaitRedis waits until the server takes connections: redis-benchmark tries without end where there is none.
func awaitRedis() error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = net.Dial("tcp", "127.0.0.1:"+redisPort); err == nil {
			return c.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func loadRedis(requests string) (rate, p99 float64, err error) {
	text, err := exec.Command("redis-benchmark", "-p", redisPort, "-t", "set", "-r", "1000000", "-n", requests, "-c", "50", "-d", "64", "--csv").Output()
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `"`, ""), ",")
		if len(fields) > 6 && fields[0] == "SET" {
			if rate, err = strconv.ParseFloat(fields[1], 64); err != nil {
				return 0, 0, err
			}
			p99, err = strconv.ParseFloat(fields[6], 64)
			return rate, p99, err
		}
	}
	return 0, 0, fmt.Errorf("redis-benchmark said %q: %w", text, err)
}

// table is the section of the document.
func table(figures []*figure, rounds int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "## Without probes\n\nMedians of %d rounds, alone and under `--probes none` in turns (`make bench-touch`). The ratio is the median of the rounds'.\n"+
		"The compiler's time is its own processor time, its start included and memtrace's own not.\n\n", rounds)
	out.WriteString("| | alone | traced | traced, of alone |\n|---|--:|--:|--:|\n")
	for _, f := range figures {
		ratios := make([]float64, len(f.alone))
		for i := range ratios {
			ratios[i] = f.traced[i] / f.alone[i]
		}
		fmt.Fprintf(&out, "| %s | %.4g %s | %.4g %s | %.3f (%.3f to %.3f) |\n", f.name, median(f.alone), f.unit, median(f.traced), f.unit,
			median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
	return out.String()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
