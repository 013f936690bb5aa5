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

// An allocator's own operator new that fails throws through its own return. The program
// ends by itself, or finish fails. Older mechanisms probe every return, and memtrace warns.
func TestOperatorNewMayThrow(t *testing.T) {
	needSession(t)
	for _, family := range []string{"jemalloc", "tcmalloc"} {
		t.Run(family, func(t *testing.T) {
			p := start(t, []string{"LD_PRELOAD=" + library(t, allocators[family])}, "longjmp_throw")
			a, events, _, loss := trace(t, Config{Mechanism: Session, StackDepth: 8}, p)
			p.finish()
			got := countCalls(events)
			if got.LiveBytes != a.Total.LiveBytes || got.Failed != a.Total.Failed || got.Failed == 0 || loss.Lost() != 0 {
				t.Errorf("\n got %+v\nwant %+v, lost %+v", got, a.Total, loss)
			}
		})
	}
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
