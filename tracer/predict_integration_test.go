//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// markSize is that of the blocks from which and up to which a thread's calls count.
const markSize = 77777

// callHash is of a thread's calls in their order; testdata/programs/predicted.c.
type callHash struct{ calls, hash uint64 }

// stackCounts are the calls of each kind by their stack.
type stackCounts map[event.Kind]map[event.StackID]int

func (h *callHash) add(values ...uint64) {
	for _, v := range values {
		h.hash = (h.hash ^ v) * 0x9e3779b97f4a7c15
	}
	h.calls++
}

// hashCalls hashes the events of each thread between its marks.
func hashCalls(events []event.Event) (map[uint32]callHash, stackCounts) {
	threads := make(map[uint32]callHash)
	stacks := stackCounts{event.Alloc: {}, event.Realloc: {}, event.Free: {}}
	count := make(map[uint32]bool)
	for i := range events {
		e := &events[i]
		h := threads[e.TID]
		switch {
		case e.Kind == event.Alloc && e.Size == markSize:
			count[e.TID] = !count[e.TID]
			continue
		case !count[e.TID] || stacks[e.Kind] == nil:
			continue
		case e.Kind == event.Alloc:
			h.add(e.Addr, e.Size)
		case e.Kind == event.Realloc:
			h.add(e.Addr, e.Size, e.Old)
		case e.Kind == event.Free:
			h.add(e.Addr)
		}
		stacks[e.Kind][e.Stack]++
		threads[e.TID] = h
	}
	return threads, stacks
}

// threadLines reads what the program says of its threads, up to its answer.
func (p *target) threadLines() map[uint32]callHash {
	p.t.Helper()
	threads := make(map[uint32]callHash)
	p.proceed()
	for line := p.line(); !strings.HasPrefix(line, "{"); line = p.line() {
		var tid uint32
		var h callHash
		if _, err := fmt.Sscanf(line, "thread %d %d %d", &tid, &h.calls, &h.hash); err != nil {
			p.t.Fatalf("parse %q: %v", line, err)
		}
		threads[tid] = h
	}
	return threads
}

// tracedCalls is what came of a run of the program under a session.
type tracedCalls struct {
	said, seen map[uint32]callHash
	stacks     stackCounts
	runs       uint64 // of the program that is at their entries and returns, as the kernel counts them
	loss       event.Loss
}

// traceCalls traces the program predicted.
func traceCalls(t *testing.T, c Config, p *target) (got tracedCalls) {
	t.Helper()
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		t.Fatalf("have the kernel count the runs of programs: %v", err)
	}
	defer stats.Close()
	c.Mechanism = Session
	tr, detach := attached(t, c, p)
	defer detach()
	read := make(chan []event.Event, 1)
	go func() {
		var events []event.Event
		for {
			b, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				read <- events
				return
			}
			events = append(events, b.Events...)
			b.Release()
		}
	}()
	got.said = p.threadLines()
	if err := tr.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	events := <-read
	got.seen, got.stacks = hashCalls(events)
	run, err := tr.kernel.program(bpf.MemtraceProgSessionAlloc).Stats()
	if err != nil {
		t.Fatal(err)
	}
	got.runs = run.RunCount
	if got.loss, err = tr.Loss(); err != nil {
		t.Fatal(err)
	}
	p.finish()
	return got
}

// check compares what was seen with what the program says it did.
func (got tracedCalls) check(t *testing.T, threads int) {
	t.Helper()
	if len(got.said) != threads {
		t.Fatalf("the program spoke of %d threads, has %d", len(got.said), threads)
	}
	for tid, want := range got.said {
		if got.seen[tid] != want {
			t.Errorf("thread %d: saw %d calls (hash %#x), it made %d (%#x)", tid, got.seen[tid].calls, got.seen[tid].hash, want.calls, want.hash)
		}
	}
	if n := got.loss.Lost(); n > 0 {
		t.Errorf("lost %d events: %+v", n, got.loss)
	}
}

// returns is the share of calls whose return was seen.
func (got tracedCalls) returns() float64 {
	entries := 0
	for _, kind := range []event.Kind{event.Alloc, event.Realloc} {
		for _, n := range got.stacks[kind] {
			entries += n
		}
	}
	return float64(got.runs)/float64(entries) - 1
}

// needSession skips where returns can't be left out. That a kernel has what its
// version promises is TestFeaturesMatchKernelVersion's concern.
func needSession(t *testing.T) {
	t.Helper()
	m, err := ChooseMechanism("")
	if err != nil {
		t.Fatal(err)
	}
	if m != Session {
		t.Skipf("%s can leave out no returns", m)
	}
}

// TestPredictedResults has every call right, in order, whether its return was
// seen or its result predicted, and all calls of one place by one stack.
func TestPredictedResults(t *testing.T) {
	needSession(t)
	for i, c := range []struct {
		name, program string
		tunables      string
		unwind        Unwinder
		least, most   float64 // of the returns
	}{
		{"eh_frame", "predicted", "", UnwindDwarf, 0.1, 0.6},
		{"frame pointers", "predicted", "", UnwindFP, 0.1, 0.6},
		{"static", "predicted_static", "", UnwindDwarf, 0.1, 0.6},
		{"short lists", "predicted", "glibc.malloc.tcache_count=1", UnwindFP, 0.2, 0.9},
		{"no lists", "predicted", "glibc.malloc.tcache_count=0", UnwindFP, 1, 1.02},
	} {
		if testing.Short() && i >= 2 {
			break // what is linked statically, and how malloc is tuned, does not depend on the kernel
		}
		t.Run(c.name, func(t *testing.T) {
			p := start(t, []string{"GLIBC_TUNABLES=" + c.tunables}, c.program)
			got := traceCalls(t, Config{Unwind: c.unwind, StackDepth: 32}, p)
			got.check(t, 3)
			if r := got.returns(); r < c.least || r > c.most {
				t.Errorf("%.2f of the returns were seen, want %.1f to %.1f", r, c.least, c.most)
			}
			// malloc, calloc and aligned_alloc are called from two places each, realloc from two others.
			if allocs, reallocs := got.stacks[event.Alloc], got.stacks[event.Realloc]; len(allocs) != 6 || len(reallocs) != 2 || allocs[0] > 0 {
				t.Errorf("stacks of allocations %v, of reallocations %v", allocs, reallocs)
			}
		})
	}
}

// TestRelayedCalls has a call of aligned_alloc that is handed on to malloc cost its two entries,
// and, as any other, its return where the result isn't predicted.
func TestRelayedCalls(t *testing.T) {
	needSession(t)
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"eh_frame", Config{Unwind: UnwindDwarf, StackDepth: 32}},
		{"a sample's programs", Config{Unwind: UnwindFP, StackDepth: 32, Sampling: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := traceCalls(t, c.config, start(t, nil, "predicted", "3", "20000", "aligned"))
			got.check(t, 3)
			if r := got.returns(); r < 1.1 || r > 1.7 {
				t.Errorf("%.2f other traps were seen for each call, want 1.1 to 1.7", r)
			}
			if allocs := got.stacks[event.Alloc]; len(allocs) != 2 || allocs[0] > 0 { // the caller's, not aligned_alloc's
				t.Errorf("stacks of allocations %v", allocs)
			}
		})
	}
}

// TestPredictedSample has every call right where a sample's programs record
// them all.
func TestPredictedSample(t *testing.T) {
	needSession(t)
	p := start(t, nil, "predicted", "1", "50000")
	got := traceCalls(t, Config{Unwind: UnwindFP, StackDepth: 4, Sampling: true, Interval: 0}, p)
	got.check(t, 1) // at interval 0 every block is recorded
	if r := got.returns(); r > 0.6 {
		t.Errorf("%.2f of the returns were seen", r)
	}
}

// otherReleases builds the program with the C libraries of other Debian releases (2.31, 2.41 and the
// newest), as NAME.RELEASE in the directory, with links to their allocators in RELEASE.lib.
func otherReleases(t *testing.T) (dir string, releases []string) {
	t.Helper()
	needSession(t)
	dir, releases = t.TempDir(), []string{"bullseye", "trixie", "sid"}
	build := exec.Command("../testdata/libc/fetch-libcs", append([]string{"../testdata/programs/predicted.c", dir}, releases...)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	t.Setenv("MEMTRACE_PROGRAMS", dir)
	return dir, releases
}

func TestPredictedResultsOfOtherLibcs(t *testing.T) {
	_, releases := otherReleases(t)
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			got := traceCalls(t, Config{Unwind: UnwindFP, StackDepth: 4}, start(t, nil, "predicted."+release))
			got.check(t, 3)
			if r := got.returns(); r > 0.6 {
				t.Errorf("%.2f of the returns were seen", r)
			}
		})
	}
	// Hooks of malloc and memalign that take over make predictions wrong. That is noticed, counted, and the end of them.
	t.Run("hook", func(t *testing.T) {
		got := traceCalls(t, Config{Unwind: UnwindFP, StackDepth: 4}, start(t, nil, "predicted."+releases[0], "1", "40000", "hook"))
		if got.loss.Mispredicted != 2 {
			t.Errorf("%d wrong predictions were counted: %+v", got.loss.Mispredicted, got.loss)
		}
		for tid, said := range got.said {
			const unchecked, eventsOfCall = 2 * 256, 4 // what a hook does in a call that is not hidden
			if seen := got.seen[tid].calls; seen < said.calls || seen > said.calls+unchecked*eventsOfCall {
				t.Errorf("saw %d calls, the program made %d", seen, said.calls)
			}
		}
	})
}

// TestPredictedResultsOfOtherAllocators preloads this system's and those of other releases.
func TestPredictedResultsOfOtherAllocators(t *testing.T) {
	dir, releases := otherReleases(t)
	check := func(t *testing.T, program, library string, most float64, environment ...string) {
		t.Helper()
		p := start(t, append(environment, "LD_PRELOAD="+library), program)
		got := traceCalls(t, Config{Unwind: UnwindFP, StackDepth: 4}, p)
		got.check(t, 3)
		if r := got.returns(); r > most {
			t.Errorf("%.2f of the returns were seen", r)
		}
	}
	for _, name := range []string{"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MEMTRACE_PROGRAMS", "")
			check(t, "predicted", library(t, name), 0.6)
		})
	}
	// Of what is known to be predicted less.
	known := map[string]float64{
		"bullseye/libjemalloc.so.2": 1.6, // 5.2.1 keeps its lists otherwise
		"trixie/libmimalloc.so.3":   1.3, // operator new makes calls
	}
	for _, release := range releases {
		libraries := filepath.Join(dir, release+".lib")
		path := "LD_LIBRARY_PATH=" + libraries
		for _, name := range []string{"libjemalloc.so.2", "libtcmalloc.so.4", "libtcmalloc_minimal.so.4", "libmimalloc.so.3"} {
			file := filepath.Join(libraries, name)
			if _, err := os.Stat(file); err != nil && release == "bullseye" && name == "libmimalloc.so.3" {
				continue // it has none
			}
			t.Run(release+"/"+name, func(t *testing.T) {
				most, other := known[release+"/"+name]
				if !other {
					most = 0.7
				}
				check(t, "predicted."+release, file, most, path)
				if name == "libtcmalloc.so.4" { // some blocks come from elsewhere
					check(t, "predicted."+release, file, most, path, "TCMALLOC_SAMPLE_PARAMETER=5000")
				}
			})
		}
	}
}
