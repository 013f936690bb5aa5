//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
)

// ownStack is a stack as the program under test took it by glibc's backtrace.
type ownStack struct {
	name   string
	size   uint64
	frames []uint64
	// strayed: its last frame is no code. On arm64 glibc's lazy resolver misstates its frame (unwind.Rule.raised), so
	// that glibc takes another word of the stack for the address that its caller returns to, and ends there.
	strayed bool
}

// ownStacks reads the lines that testdata/programs/stacks.h prints. The program goes on with a library that it has loaded
// once tr has the tables of it.
func ownStacks(t *testing.T, tr *Tracer, p *target) []ownStack {
	t.Helper()
	var out []ownStack
	for {
		line := p.line()
		switch line {
		case "end":
			return out
		case "loaded":
			awaitTables(t, tr, p.cmd.Process.Pid, "libstacks.so")
			p.proceed()
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			t.Fatalf("the program said %q", line)
		}
		size, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s := ownStack{name: fields[0], size: size}
		for _, f := range fields[2:] {
			address, err := strconv.ParseUint(f, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			s.frames = append(s.frames, address)
		}
		out = append(out, s)
	}
}

// awaitTables waits until a tracer has noticed that a process has mapped a library, and has the tables of it.
func awaitTables(t *testing.T, tr *Tracer, pid int, library string) {
	t.Helper()
	s := tr.updater.spaces
	isOf := func(m probe.Mapping) bool { return filepath.Base(m.Path) == library }
	noticed := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		known := s.known[pid]
		return known != nil && slices.ContainsFunc(known.mappings, isOf)
	}
	for deadline := time.Now().Add(time.Minute); !noticed(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s was mapped, and nothing noticed it", library)
		}
	}
	if err := s.tables.wait(); err != nil {
		t.Fatal(err)
	}
}

// sizes are the stacks that allocated a size.
type sizes map[uint64][]event.Stack

// of returns the stack of the program's block; libc may have allocated as much.
func (s sizes) of(want ownStack) event.Stack {
	for _, got := range s[want.size] {
		if len(got.Frames) > 0 && got.Frames[0]-want.frames[0] < withinCall {
			return got
		}
	}
	return event.Stack{}
}

// traceStacks runs a program under trace and returns its own stacks and ours by size.
func traceStacks(t *testing.T, c Config, p *target) ([]ownStack, sizes) {
	t.Helper()
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	pid := p.cmd.Process.Pid
	if err := tr.Attach(pid, discover(t, pid)); err != nil {
		t.Fatal(err)
	}
	for _, err := range tr.UnwindProblems() {
		t.Error(err)
	}
	got := make(chan sizes, 1)
	go func() { got <- stacksBySize(tr) }()
	p.proceed()
	own := ownStacks(t, tr, p)
	markStrayed(t, pid, own)
	if err := tr.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	return own, <-got
}

func markStrayed(t *testing.T, pid int, own []ownStack) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for i := range own {
		last := own[i].frames[len(own[i].frames)-1]
		own[i].strayed = runtime.GOARCH == "arm64" && !slices.ContainsFunc(strings.Split(string(maps), "\n"), func(line string) bool {
			var start, end uint64
			var perms string
			n, _ := fmt.Sscanf(line, "%x-%x %s", &start, &end, &perms)
			return n == 3 && strings.Contains(perms, "x") && start <= last && last < end
		})
	}
}

// stacksBySize reads all events.
func stacksBySize(tr *Tracer) sizes {
	byID, bySize := map[event.StackID]event.Stack{}, sizes{}
	for {
		b, err := tr.Read()
		if errors.Is(err, ErrClosed) {
			return bySize
		}
		for _, s := range b.Stacks {
			byID[s.ID] = s
		}
		for _, e := range b.Events {
			if e.Kind == event.Alloc {
				bySize[e.Size] = append(bySize[e.Size], byID[e.Stack])
			}
		}
		b.Release()
	}
}

// withinCall is how far the calls of backtrace and malloc are apart in allocate().
const withinCall = 256

// differs says where got is not the stack that the program saw, -1 if nowhere.
func differs(got event.Stack, want ownStack) int {
	known := want.frames
	if want.strayed {
		known = known[:len(known)-1]
	}
	for i, address := range known {
		if i == len(got.Frames) {
			return i
		}
		switch d := got.Frames[i] - address; {
		case i == 0 && d < withinCall:
		case d == 0:
		case d == 1 && (want.name == "struck" || want.name == "signal"): // where the signal struck
		default:
			return i
		}
	}
	if len(got.Frames) > len(known) && !want.strayed && !inVDSO(got, want) {
		return len(known)
	}
	return -1
}

// inVDSO: the signal struck in the vDSO of arm64, which has no call frame
// information. glibc's stack ends there; ours goes on by frame pointers, and says so.
func inVDSO(got event.Stack, want ownStack) bool {
	return runtime.GOARCH == "arm64" && want.name == "struck" && len(want.frames) == 3 && got.FPGuess
}

func TestStacksEqualBacktrace(t *testing.T) {
	t.Parallel()
	programs := []string{
		"stacks_O2", "stacks_cxx_O2", "stacks_static",
		"stacks_O0", "stacks_O3", "stacks_cxx_O0", "stacks_cxx_O3",
		"stacks_clang_O0", "stacks_clang_O2", "stacks_clang_O3",
		"stacks_cxx_clang_O0", "stacks_cxx_clang_O2", "stacks_cxx_clang_O3",
		"stacks_rust_O0", "stacks_rust_O2", "stacks_rust_O3",
		"stacks_static_pie", "stacks_now", "stacks_musl", "stacks_musl_static",
	}
	if testing.Short() {
		programs = programs[:2] // what compilers make of the rest does not depend on the kernel
	}
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			p := start(t, nil, name)
			own, got := traceStacks(t, Config{StackDepth: MaxStackDepth, Unwind: UnwindDwarf}, p)
			p.finish()
			compareStacks(t, own, got)
		})
	}
}

// loadedLate is how many stacks through a library that has just been loaded may come before its tables do. Before the
// others the program waits for them.
const loadedLate = 1

func compareStacks(t *testing.T, own []ownStack, got sizes) {
	t.Helper()
	right, late, shown := 0, 0, 0
	for _, want := range own {
		s := got.of(want)
		at := differs(s, want)
		if at < 0 && (s.Bottom && !s.Truncated && !s.FPGuess || inVDSO(s, want)) {
			right++
			continue
		}
		if want.name == "dlopen" && late < loadedLate && (!s.Bottom || s.FPGuess) {
			late++
			continue
		}
		if shown++; shown <= 10 {
			t.Errorf("%s: differs at frame %d (bottom %v, truncated %v, guess %v)\n got %x\nwant %x",
				want.name, at, s.Bottom, s.Truncated, s.FPGuess, s.Frames, want.frames)
		}
	}
	t.Logf("%d of %d stacks equal, %d before the tables of a loaded library", right, len(own), late)
	if right+late != len(own) || right == 0 {
		t.Errorf("%d of %d stacks are wrong", len(own)-right-late, len(own))
	}
}
