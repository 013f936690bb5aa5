//go:build integration

package main

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

var (
	usdtLayer = []string{"--layer", "otel_memory"}
	// The same probes beside malloc, and each block for itself.
	usdtProbes = []string{"--alloc-fn", "usdt:otel_memory:alloc:block=0,size=1", "--free-fn", "usdt_pool!usdt:otel_memory:free:ptr=0"}
)

// usdtAnswer is what testdata/programs/usdt_pool.c says beside its sites.
type usdtAnswer struct {
	Plain, Sampled, Weighed counts
	SwitchedOff             uint64 `json:"switched_off"`
}

// checkPool compares a Report with what the program counted. A weight is whole
// bytes, so that what the sample stands for is right to that.
func checkPool(t *testing.T, c *child, r *report.Report, layer bool) {
	t.Helper()
	c.checkSites(t, r)
	text, err := json.Marshal(c.answer)
	if err != nil {
		t.Fatal(err)
	}
	var a usdtAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	if a.SwitchedOff != 0 {
		t.Errorf("%d calls found their probe switched off", a.SwitchedOff)
	}
	if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 || len(r.Warnings) > 0 {
		t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
	}
	pid := r.Processes[0].PID
	plain, sampled := siteSum(r, pid, "plain"), siteSum(r, pid, "sampled")
	if !layer {
		same(t, "plain", plain, a.Plain)
		same(t, "sampled", sampled, a.Sampled)
		return
	}
	if plain.AllocCount != 0 {
		t.Errorf("%d of malloc's blocks beside a layer that tells of them itself", plain.AllocCount)
	}
	near(t, "alloc_bytes", sampled.AllocBytes, a.Weighed.AllocBytes)
	near(t, "live_bytes", sampled.LiveBytes, a.Weighed.LiveBytes)
	near(t, "alloc_count", sampled.AllocCount, a.Weighed.Alloc)
	if r.Sampling == nil || len(r.Sampling.Intervals) != 1 || r.Sampling.Blocks != a.Sampled.Alloc {
		t.Errorf("sampling %+v, want one interval and %d blocks", r.Sampling, a.Sampled.Alloc)
	}
}

func same(t *testing.T, site string, got report.Site, want counts) {
	t.Helper()
	if got.AllocCount != want.Alloc || got.AllocBytes != want.AllocBytes || got.LiveCount != want.LiveCount || got.LiveBytes != want.LiveBytes {
		t.Errorf("%s: got %+v, the program says %+v", site, got, want)
	}
}

func near(t *testing.T, what string, got, want uint64) {
	t.Helper()
	if want == 0 || math.Abs(float64(got)-float64(want)) > float64(want)/1000 {
		t.Errorf("%s: got %d, the program's sample stands for %d", what, got, want)
	}
}

func poolPath() string { return filepath.Join("..", "..", "build", "testdata", "usdt_pool") }

// Blocks that a program tells of by USDT probes are those that it counts; the
// kernel switches the probes with a semaphore on and, when memtrace is gone, off.
func TestUSDTPool(t *testing.T) {
	t.Parallel()
	if !testing.Short() { // which probes the same places of the same file
		c, r := runWith(t, usdtLayer, poolPath())
		checkPool(t, c, &r, true)
	}
	attachedPool(t, "auto")
}

// So they are on every way to attach, and beside malloc.
func TestUSDTMechanisms(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{
		"run":              nil,
		"run/uprobe_multi": {"--attach", "uprobe_multi"},
		"run/perf_cookie":  {"--attach", "perf_cookie"},
		"run/perf":         {"--attach", "perf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, append(more, usdtLayer...), poolPath())
			checkPool(t, c, &r, true)
		})
		t.Run("beside/"+name, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, append(more, usdtProbes...), poolPath())
			checkPool(t, c, &r, false)
		})
	}
	for _, mechanism := range []string{"uprobe_multi", "perf_cookie", "perf"} {
		t.Run("attach/"+mechanism, func(t *testing.T) {
			t.Parallel()
			attachedPool(t, mechanism)
		})
	}
}

// So they are in a sample. Its figures are exact only while tracing takes little time: it runs alone.
func TestUSDTSample(t *testing.T) {
	for name, layer := range map[string]struct {
		flags []string
		alone bool
	}{"run": {usdtLayer, true}, "beside/run": {usdtProbes, false}} {
		t.Run(name, func(t *testing.T) {
			c, r := runWith(t, append([]string{"--max-overhead", "90%"}, layer.flags...), poolPath())
			checkPool(t, c, &r, layer.alone)
		})
	}
}

// attachedPool traces the program while it runs already.
func attachedPool(t *testing.T, mechanism string) {
	t.Helper()
	c := program(t, "usdt_pool")
	tr := attach(t, c.cmd.Process.Pid, append([]string{"--attach", mechanism}, usdtLayer...)...)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil { // its exit code says that no semaphore is raised
		t.Error(err)
	}
	checkPool(t, c, &r, true)
}

// The kernel lowers the semaphores of a memtrace that is killed as well.
func TestUSDTSIGKILL(t *testing.T) {
	t.Parallel()
	c := program(t, "usdt_pool")
	tr := attach(t, c.cmd.Process.Pid, usdtLayer...)
	if n := semaphore(t, c); n != 1 {
		t.Fatalf("the semaphore is %d under trace, want 1", n)
	}
	if err := tr.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tr.cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); semaphore(t, c) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the semaphore is still raised 10 s after memtrace was killed")
		}
	}
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// semaphore reads the one of the program's probes of allocations.
func semaphore(t *testing.T, c *child) uint16 {
	t.Helper()
	file, err := elf.Open(poolPath())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "pool_alloc_semaphore" })
	maps, err := os.ReadFile("/proc/" + c.pid() + "/maps")
	if err != nil || at < 0 {
		t.Fatalf("the semaphore's symbol is number %d; maps: %v", at, err)
	}
	var base uint64 // of the file's first byte, as the program is position-independent
	if _, err := fmt.Sscanf(string(maps), "%x-", &base); err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open("/proc/" + c.pid() + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var word [2]byte
	if _, err := mem.ReadAt(word[:], int64(base+symbols[at].Value)); err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint16(word[:])
}

// A stack begins in the function that has the probe, and goes on to its callers.
func TestUSDTStacks(t *testing.T) {
	t.Parallel()
	for _, unwind := range []string{"dwarf", "fp"} {
		_, r := runWith(t, append([]string{"--unwind", unwind}, usdtLayer...), poolPath())
		seen := map[string]bool{}
		for _, s := range r.Sites {
			switch s.Function {
			case "in_registers", "in_memory", "indexed", "narrow":
				seen[s.Function] = true
				if len(s.Stack) < 3 || s.Stack[1].Function != "fill" || s.Stack[2].Function != "main" {
					t.Errorf("--unwind %s: %s is called by %+v", unwind, s.Function, s.Stack)
				}
			}
		}
		if len(seen) != 4 {
			t.Errorf("--unwind %s: 4 functions allocate so, seen are %v", unwind, seen)
		}
	}
}

// Without memtrace nobody switches the probes on.
func TestUSDTUntraced(t *testing.T) {
	t.Parallel()
	c := program(t, "usdt_pool")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if off := c.answer["switched_off"]; off != 13.0 {
		t.Errorf("%v calls found their probe switched off, want 13", off)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// doctor shows what would be probed, at what cost, and what would not.
func TestUSDTDoctor(t *testing.T) {
	t.Parallel()
	c := program(t, "usdt_pool")
	plain, layer := doctorOf(t, c.pid()), doctorOf(t, c.pid(), usdtLayer...)
	if !strings.Contains(plain, "otel_memory:alloc 8@%rax 4@$48") || !strings.Contains(plain, "not traced: --layer otel_memory does") {
		t.Errorf("without the layer doctor says:\n%s", plain)
	}
	probed := 0
	for line := range strings.Lines(layer) {
		if strings.Contains(line, "otel_memory:") && strings.Contains(line, "emulated") {
			probed++
		}
	}
	if probed != 10 || !strings.Contains(layer, "nop, 8@last_block+8(%rip) 8@last_size(%rip)") || strings.Contains(layer, " malloc ") {
		t.Errorf("%d of 10 probes; with the layer doctor says:\n%s", probed, layer)
	}
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func doctorOf(t *testing.T, pid string, flags ...string) string {
	t.Helper()
	out, err := memtraceCommand(t, append([]string{"doctor", "-p", pid}, flags...)...).Output()
	if err != nil {
		t.Fatalf("doctor: %v", err)
	}
	return string(out)
}

// A program without such probes has nothing that the layer could trace.
func TestUSDTLayerThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := program(t, "user_alloc")
	said, code := memtrace(t, append([]string{"-p", c.pid(), "-d", "1s"}, usdtLayer...)...)
	if code != exitFailed || !strings.Contains(said, "the layer otel_memory") {
		t.Errorf("exit code %d, says %q", code, said)
	}
}
