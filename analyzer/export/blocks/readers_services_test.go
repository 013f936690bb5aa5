//go:build integration && services

package blocks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// save writes a scene into a file.
func (s *scene) save(t *testing.T, name string, o Options) string {
	t.Helper()
	o.Compression = CompressionOf(name)
	text, _ := s.write(t, o)
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%v: %v: %s%s", cmd, err, out, complaints.String())
	}
	return string(out)
}

// heaptrack_print's own sums are the truth, in each of its costs, whatever the file is compressed with.
func TestHeaptrackPrintReadsIt(t *testing.T) {
	t.Parallel()
	s := twoProcesses(20_000)
	b := s.books[100]
	for cost, want := range map[string]uint64{
		"allocations": b.sum.allocs, "leaked": b.sum.liveBytes, "peak": b.peak, "temporary": b.atOnce,
	} {
		for _, ending := range []string{"", ".gz", ".zst"} {
			file := s.save(t, "heaptrack.first"+ending, Options{Format: Heaptrack, PID: 100})
			stacks := file + ".stacks"
			shown := output(t, exec.Command("heaptrack_print", "--disable-builtin-suppressions", "--flamegraph-cost-type", cost, "-F", stacks, file))
			if got := sumOfStacks(t, stacks); got != want {
				t.Errorf("%s%s: %d, want %d", cost, ending, got, want)
			}
			if !strings.Contains(shown, fmt.Sprintf("calls to allocation functions: %d ", b.sum.allocs)) {
				t.Error(shown)
			}
		}
	}
}

// sumOfStacks adds up the last words of lines.
func sumOfStacks(t *testing.T, path string) (sum uint64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		n, err := strconv.ParseUint(words[len(words)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// The Firefox Profiler's own code loads the profile, and finds what lives, what was allocated and what was freed, and
// the peaks of the counters.
func TestFirefoxProfilerReadsIt(t *testing.T) {
	t.Parallel()
	script := strings.TrimSpace(output(t, exec.Command("../../../testdata/firefox/fetch-profiler")))
	s := twoProcesses(20_000)
	file := s.save(t, "profile.json.gz", Options{Format: Firefox})
	run := firefoxProfiler(t, script, file)
	for i, pid := range []uint32{100, 200} {
		b := s.books[pid]
		run("thread", "select", "t-"+strconv.Itoa(i))
		for strategy, want := range map[string]uint64{
			"native-retained-allocations": b.sum.liveBytes, "native-allocations": b.sum.allocBytes, "native-deallocations-memory": b.sum.allocBytes - b.sum.liveBytes,
		} {
			run("strategy", strategy)
			if got := bytesShown(t, run("thread", "samples", "--json")); got != want {
				t.Errorf("%s of %d: %d, want %d", strategy, pid, got, want)
			}
		}
	}
}

// firefoxProfiler loads a profile into a Firefox Profiler, and returns what asks it. Its own load gives the server that
// it starts half a second, which a busy machine may need for less.
func firefoxProfiler(t *testing.T, script, file string) (run func(args ...string) string) {
	t.Helper()
	home := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("node", append([]string{script}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "PROFILER_CLI_SESSION_DIR="+home)
		return cmd
	}
	run = func(args ...string) string { return output(t, command(append(args, "--session", "test")...)) }
	server := command("--daemon", file, "--session", "test")
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := command("profile", "info", "--session", "test").CombinedOutput()
		if err == nil {
			return run
		}
		select {
		case <-ended:
			t.Fatalf("the profiler has ended: %s", said.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the profiler does not load %s: %s", file, out)
		}
	}
}

// bytesShown are the bytes of all samples.
func bytesShown(t *testing.T, text string) uint64 {
	t.Helper()
	var shown struct {
		CategoryBreakdown struct{ TotalSamples float64 }
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatalf("%v: %.500s", err, text)
	}
	return uint64(max(shown.CategoryBreakdown.TotalSamples, -shown.CategoryBreakdown.TotalSamples))
}

// protoc takes the whole trace apart, without a schema: it has the packets that Perfetto's importers look for.
func TestProtocReadsTheTrace(t *testing.T) {
	t.Parallel()
	s := twoProcesses(20_000)
	cmd := exec.Command("protoc", "--decode_raw")
	f, err := os.Open(s.save(t, "trace.pftrace", Options{Format: Perfetto}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdin = f
	text := output(t, cmd)
	profiles := 0
	for _, packet := range strings.Split(text, "\n1 {\n") {
		if regexp.MustCompile(`(?m)^  37 \{$`).MatchString(packet) {
			profiles++
		}
	}
	if profiles < perfettoDumps || !strings.Contains(text, `2: "live heap"`) || !strings.Contains(text, `6: "second"`) {
		t.Errorf("%d heap profiles in %.2000s", profiles, text)
	}
}
