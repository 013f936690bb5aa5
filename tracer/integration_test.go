//go:build integration

package tracer

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
)

// programs is where `make testprograms` leaves the programs with a known answer.
func programs() string {
	if dir := os.Getenv("MEMTRACE_PROGRAMS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "build", "testdata")
}

// counts are what a test program says of its own calls; testdata/programs/target.h.
type counts struct {
	Function       string
	Alloc, Realloc uint64
	ReallocFresh   uint64 `json:"realloc_fresh"`
	ReallocFreed   uint64 `json:"realloc_freed"`
	Failed         uint64
	ReallocFailed  uint64 `json:"realloc_failed"`
	Free           uint64
	AllocBytes     uint64 `json:"alloc_bytes"`
	ReallocBytes   uint64 `json:"realloc_bytes"`
	LiveBytes      uint64 `json:"live_bytes"`
	LiveCount      uint64 `json:"live_count"`
}

type answer struct {
	PID   int
	Total counts
	Sites []counts
	Left  uint64 // calls that never return; testdata/programs/leaves.cc
	Takes uint64 // all calls of take there
}

// target is a test program that waits to be told to go on.
type target struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB, env []string, name string, args ...string) *target {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs(), name), append([]string{"attach"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s (make testprograms builds it): %v", name, err)
	}
	p := &target{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	})
	if line := p.line(); !strings.HasPrefix(line, "ready ") {
		t.Fatalf("%s said %q, want ready", name, line)
	}
	return p
}

func (p *target) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("read from the test program: %v", err)
	}
	return strings.TrimSpace(line)
}

// proceed lets the program go on to its next stop.
func (p *target) proceed() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		p.t.Fatalf("tell the test program to go on: %v", err)
	}
}

// answer runs the program's measured part and returns what it says of it.
func (p *target) answer() answer {
	p.t.Helper()
	p.proceed()
	for {
		line := p.line()
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var a struct {
			answer
			Final bool
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			p.t.Fatalf("parse the answer %q: %v", line, err)
		}
		if a.Final {
			return a.answer
		}
	}
}

// finish lets the program exit and reports how it ended.
func (p *target) finish() {
	p.t.Helper()
	p.proceed()
	_, _ = io.Copy(io.Discard, p.out)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the traced program was harmed: %v", err)
	}
}

// discover finds what to probe in a process.
func discover(t testing.TB, pid int) []probe.Object {
	t.Helper()
	return discoverBy(t, probe.Choice{}, pid)
}

func discoverBy(t testing.TB, choice probe.Choice, pid int) []probe.Object {
	t.Helper()
	objects, err := probe.NewFinder("/proc", choice).Discover(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { probe.CloseAll(objects) })
	return objects
}

// attached is a tracer of the program, and what closes it.
func attached(t *testing.T, c Config, p *target) (tr *Tracer, detach func()) {
	t.Helper()
	return attachedBy(t, c, probe.Choice{}, p)
}

func attachedBy(t *testing.T, c Config, choice probe.Choice, p *target) (tr *Tracer, detach func()) {
	t.Helper()
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	detach = func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := tr.Attach(p.cmd.Process.Pid, discoverBy(t, choice, p.cmd.Process.Pid)); err != nil {
		detach()
		t.Fatal(err)
	}
	return tr, detach
}

// trace attaches to the program, lets it run, and returns its answer and all events.
func trace(t *testing.T, c Config, p *target) (answer, []event.Event, []event.Stack, event.Loss) {
	t.Helper()
	return traceBy(t, c, probe.Choice{}, p)
}

func traceBy(t *testing.T, c Config, choice probe.Choice, p *target) (
	answer, []event.Event, []event.Stack, event.Loss,
) {
	t.Helper()
	tr, detach := attachedBy(t, c, choice, p)
	defer detach()
	type result struct {
		events []event.Event
		stacks []event.Stack
	}
	got := make(chan result, 1)
	go func() {
		var r result
		for {
			b, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				got <- r
				return
			}
			r.events = append(r.events, b.Events...)
			r.stacks = append(r.stacks, b.Stacks...)
			b.Release()
		}
	}()
	a := p.answer()
	if err := tr.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	r := <-got
	loss, err := tr.Loss()
	if err != nil {
		t.Fatal(err)
	}
	return a, r.events, r.stacks, loss
}

// rungs are the attach mechanisms that this kernel has; that it has each that
// its version promises is TestFeaturesMatchKernelVersion's concern.
func rungs(t *testing.T) []Mechanism {
	t.Helper()
	var out []Mechanism
	for _, r := range mechanisms {
		if err := r.have.Probe(); err == nil {
			out = append(out, r.name)
		} else if !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	return out
}

// bestRungs are the rungs, or in an emulator (-short) the best of them: the
// others are the best ones of older kernels, or of this machine's.
func bestRungs(t *testing.T) []Mechanism {
	t.Helper()
	all := rungs(t)
	if testing.Short() && len(all) > 1 {
		return all[:1]
	}
	return all
}

// tally counts events as the test programs count their calls.
func countCalls(events []event.Event) counts {
	var c counts
	live := make(map[uint64]uint64)
	for _, e := range events {
		switch e.Kind {
		case event.Alloc:
			c.Alloc++
			c.AllocBytes += e.Size
			live[e.Addr] = e.Size
		case event.Free:
			c.Free++
			delete(live, e.Addr)
		case event.Realloc:
			c.Realloc++
			c.ReallocBytes += e.Size
			delete(live, e.Old)
			if e.Addr != 0 {
				live[e.Addr] = e.Size
			} else {
				c.ReallocFreed++
			}
			if e.Old == 0 {
				c.ReallocFresh++
			}
		case event.AllocFailed:
			c.Failed++
		case event.ReallocFailed:
			c.Failed++
			c.ReallocFailed++
		}
	}
	for _, size := range live {
		c.LiveBytes += size
		c.LiveCount++
	}
	return c
}

func checkOrder(t *testing.T, events []event.Event) {
	t.Helper()
	for i := 1; i < len(events); i++ {
		if events[i].Time < events[i-1].Time {
			t.Fatalf("event %d is %d ns older than the one before it", i, events[i-1].Time-events[i].Time)
		}
	}
}

func TestEveryFunctionExactly(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		t.Run(string(m), func(t *testing.T) {
			p := start(t, nil, "every_function")
			a, events, _, loss := trace(t, Config{Mechanism: m, StackDepth: 32}, p)
			p.finish()
			if got := countCalls(events); got != a.Total {
				t.Errorf("\n got %+v\nwant %+v", got, a.Total)
			}
			if loss.Lost() != 0 {
				t.Errorf("lost events: %+v", loss)
			}
			checkOrder(t, events)
		})
	}
}

func TestTwoThreads(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		t.Run(string(m), func(t *testing.T) {
			p := start(t, nil, "two_threads")
			a, events, _, loss := trace(t, Config{Mechanism: m, StackDepth: 32}, p)
			p.finish()
			var count, bytes uint64
			for _, e := range events {
				if e.Kind == event.Alloc && e.Size == 4 {
					count, bytes = count+1, bytes+e.Size
				}
			}
			if count != 200_000 || bytes != 800_000 || a.Total.LiveBytes != 800_000 {
				t.Errorf("saw %d blocks of %d bytes, want 200000 of 800000 (the program says %d)", count, bytes, a.Total.LiveBytes)
			}
			if loss.Lost() != 0 {
				t.Errorf("lost events: %+v", loss)
			}
			checkOrder(t, events)
		})
	}
}
