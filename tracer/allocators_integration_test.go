//go:build integration

package tracer

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
)

// machine is the one that runs the tests, as compilers call it.
var machine = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// allocators are other allocators of Debian's packages, preloaded.
var allocators = map[string]string{
	"jemalloc": "libjemalloc.so.2",
	"tcmalloc": "libtcmalloc_minimal.so.4",
	"mimalloc": "libmimalloc.so.2",
	"scudo":    "../llvm-19/lib/clang/19/lib/linux/libclang_rt.scudo_standalone-" + machine + ".so",
}

// library is a copy of an allocator, which nobody else on the machine maps. Where
// another trace, of whatever process, probes the same file, the kernel has the returns
// go through its own code that this trace would leave out, and exceptions can't pass that.
func library(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("/usr/lib/*-linux-gnu*/", name))
	if strings.HasPrefix(name, "..") {
		found, err = filepath.Glob(filepath.Join("/usr/lib", name[len("../"):]))
	}
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is not installed (.ci/setup test installs it)", name)
	}
	own := filepath.Join(t.TempDir(), filepath.Base(name))
	text, err := os.ReadFile(found[0])
	if err == nil {
		err = os.WriteFile(own, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// What the program counts of its own calls must be what is seen, whoever
// serves malloc.
func TestOtherAllocators(t *testing.T) {
	t.Parallel()
	for family, file := range allocators {
		t.Run(family, func(t *testing.T) {
			p := start(t, []string{"LD_PRELOAD=" + library(t, file)}, "every_function", "no-pvalloc")
			a, events, _, loss := trace(t, Config{StackDepth: 32}, p)
			p.finish()
			if got := countCalls(events); got != a.Total {
				t.Errorf("\n got %+v\nwant %+v", got, a.Total)
			}
			if loss.Lost() != 0 {
				t.Errorf("lost events: %+v", loss)
			}
		})
	}
}

// C++ programs enter these allocators by operator new and delete, which have
// fast paths of their own.
func TestOperatorNewOfOtherAllocators(t *testing.T) {
	t.Parallel()
	for family, file := range allocators {
		t.Run(family, func(t *testing.T) {
			p := start(t, []string{"LD_PRELOAD=" + library(t, file)}, "cxx_containers")
			a, events, _, _ := trace(t, Config{StackDepth: 8}, p)
			p.finish()
			got := countCalls(events)
			if got.Free != a.Total.Free || got.Alloc != a.Total.Alloc || got.LiveBytes != a.Total.LiveBytes {
				t.Errorf("\n got %+v\nwant %+v", got, a.Total)
			}
		})
	}
}

func TestLongjmpAndExceptions(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		t.Run(string(m), func(t *testing.T) {
			p := start(t, nil, "longjmp_throw")
			a, events, _, loss := trace(t, Config{Mechanism: m, StackDepth: 8}, p)
			p.finish()
			got := countCalls(events)
			if got.LiveBytes != a.Total.LiveBytes || loss.Lost() != 0 {
				t.Errorf("\n got %+v\nwant %+v, lost %+v", got, a.Total, loss)
			}
		})
	}
}

// TestOperatorNewMayThrow has an allocator's own operator new fail, whose exception passes all frames. The program
// ends by itself, or finish fails. (Debian's mimalloc is C and ends the program itself.)
func TestOperatorNewMayThrow(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		for _, family := range []string{"jemalloc", "tcmalloc"} {
			t.Run(string(m)+"/"+family, func(t *testing.T) {
				t.Parallel()
				p := start(t, []string{"LD_PRELOAD=" + library(t, allocators[family])}, "leaves", "news")
				a, events, _, loss := trace(t, Config{Mechanism: m, StackDepth: 8}, p)
				p.finish()
				got := countCalls(events)
				if got.Alloc != a.Total.Alloc || got.LiveBytes != a.Total.LiveBytes || loss.Lost() != 0 || loss.Abandoned != a.Left || a.Left == 0 {
					t.Errorf("\n got %+v\nwant %+v, lost %+v, left %d calls", got, a.Total, loss, a.Left)
				}
			})
		}
	}
}

// TestThreadsThatEndInsideAFunction has calls that were left by the end of their thread counted, wherever the thread's
// state is.
func TestThreadsThatEndInsideAFunction(t *testing.T) {
	storage := haveTaskStorage.Probe
	t.Cleanup(func() { haveTaskStorage.Probe = storage })
	none := func() error { return ErrNotSupported }
	for name, have := range map[string]func() error{"as here": storage, "in a table": none} {
		haveTaskStorage.Probe = have
		t.Run(name, func(t *testing.T) {
			p := start(t, nil, "leaves")
			a, events, _, loss := traceBy(t, Config{Mechanism: Perf, StackDepth: 1}, onlyTakes(t), p)
			p.finish()
			seen := countCalls(events).Alloc
			if seen+loss.Abandoned != a.Takes || loss.Abandoned < a.Left || loss.Lost() != 0 {
				t.Errorf("saw %d calls, of %d; the program left %d; lost %+v", seen, a.Takes, a.Left, loss)
			}
		})
	}
}

// onlyTakes are the functions take, give and drop of testdata/programs/leaves.cc, and no allocator.
func onlyTakes(t *testing.T) probe.Choice {
	t.Helper()
	c := probe.Choice{Family: probe.Jemalloc}
	for text, parse := range map[string]func(string) (probe.UserFunction, error){
		"take:size=0": probe.ParseAllocFunction, "give:ptr=0": probe.ParseFreeFunction,
		"drop:ptr=0": probe.ParseFreeFunction,
	} {
		f, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Functions = append(c.Functions, f)
	}
	return c
}

// Where return addresses are replaced, calls for more than the machine's memory keep theirs, and throw. The program ends by itself, or
// finish fails.
func TestHugeCallsKeepTheirReturn(t *testing.T) {
	needSession(t)
	for _, family := range []string{"jemalloc", "tcmalloc"} {
		t.Run(family, func(t *testing.T) {
			p := start(t, []string{"LD_PRELOAD=" + library(t, allocators[family])}, "longjmp_throw")
			replacing := probe.Choice{ReplaceReturns: true}
			a, events, _, loss := traceBy(t, Config{Mechanism: Session, StackDepth: 8}, replacing, p)
			p.finish()
			got := countCalls(events)
			if got.LiveBytes != a.Total.LiveBytes || got.Failed != a.Total.Failed || got.Failed == 0 || loss.Lost() != 0 {
				t.Errorf("\n got %+v\nwant %+v, lost %+v", got, a.Total, loss)
			}
		})
	}
}

// TestReturnsReplacedByAnotherTrace has another tracer probe the returns of the same functions, in another process: the kernel then
// replaces the return addresses of both. Each call is seen all the same.
func TestReturnsReplacedByAnotherTrace(t *testing.T) {
	needSession(t)
	t.Parallel()
	for _, pair := range [][2]Mechanism{{Session, Session}, {Session, Multi}, {PerfCookie, Session}} {
		own, others := pair[0], pair[1]
		t.Run(string(own)+" beside "+string(others), func(t *testing.T) {
			t.Parallel()
			lib := "LD_PRELOAD=" + library(t, allocators["jemalloc"])
			b := start(t, []string{lib}, "cxx_containers", "2", "500")
			replaceReturns(t, others, b.cmd.Process.Pid)
			p := start(t, []string{lib}, "cxx_containers", "2", "500")
			a, events, _, loss := trace(t, Config{Mechanism: own, StackDepth: 8}, p)
			p.finish()
			b.answer()
			b.finish()
			got := countCalls(events)
			if got.Alloc != a.Total.Alloc || got.Free != a.Total.Free || got.LiveBytes != a.Total.LiveBytes || loss.Lost() != 0 {
				t.Errorf("\n got %+v\nwant %+v, lost %+v", got, a.Total, loss)
			}
		})
	}
}

// replaceReturns traces a process by return probes of all functions, also of those that may throw.
func replaceReturns(t *testing.T, m Mechanism, pid int) {
	t.Helper()
	tr, err := New(Config{Mechanism: m, StackDepth: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	objects, keeping := discover(t, pid), 0
	for i := range objects {
		for j := range objects[i].Probes {
			p := &objects[i].Probes[j]
			if p.KeepsReturn {
				keeping++
			}
			p.KeepsReturn = false
		}
	}
	if keeping == 0 {
		t.Fatal("no function keeps its return address")
	}
	if err := tr.Attach(pid, objects); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			b, err := tr.Read()
			if err != nil {
				return
			}
			b.Release()
		}
	}()
}

// isThreadVector picks out the block in which ld.so keeps a new thread's TLS
// addresses: it is no allocation of the program's.
func isThreadVector(e event.Event) bool {
	return e.Kind == event.Alloc && e.Size == 288
}

func TestEscapesFromAnAllocator(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		t.Run(string(m), func(t *testing.T) {
			lib, err := filepath.Abs(filepath.Join(programs(), "libescape.so"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(lib); err != nil {
				t.Fatal(err)
			}
			p := start(t, []string{"LD_PRELOAD=" + lib}, "escape")
			a, events, _, loss := trace(t, Config{Mechanism: m, StackDepth: 8}, p)
			p.finish()
			got := countCalls(slices.DeleteFunc(events, isThreadVector))
			if got.Alloc != a.Total.Alloc || got.LiveBytes != a.Total.LiveBytes || loss.Lost() != 0 {
				t.Errorf("\n got %+v\nwant %+v, lost %+v", got, a.Total, loss)
			}
		})
	}
}
