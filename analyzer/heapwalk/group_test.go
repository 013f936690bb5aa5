package heapwalk

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/procfs"
)

// typesProgram loses blocks of known content and prints how many of which.
const typesProgram = `
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
namespace shop {
struct Base { virtual ~Base() {} long n = 1; };
template <class T> struct Basket : Base { T what[9] = {}; };
}
namespace { struct Hidden { virtual void f() {} char room[200] = {}; }; }
static void *volatile kept;
__attribute__((noinline)) static void lose() {
	for (int i = 0; i < 5; i++) new shop::Basket<long>;
	for (int i = 0; i < 3; i++) new Hidden;
	for (int i = 0; i < 7; i++) strcpy((char *)malloc(100), i < 4 ? "GET /index.html" : "HEAD /");
	for (int i = 0; i < 2; i++) calloc(1, 3000);
	kept = new shop::Base;
	long *p = (long *)malloc(500); memset(p, 0xee, 500); *p = (long)kept;
}
__attribute__((noinline)) static void scrub() { volatile char room[16384]; memset((void *)room, 0, sizeof room); }
int main() { lose(); scrub(); puts("ready"); fflush(stdout); char c; while (read(0, &c, 1) > 0) {} }
`

func startTypes(t *testing.T, flag string) *procfs.Process {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "types.cc"), filepath.Join(dir, "types")
	if err := os.WriteFile(source, []byte(typesProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	compile(t, "g++", "-w", "-O1", "-fno-builtin", flag, "-o", program, source)
	cmd := exec.Command(program)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the program said %q (%v)", line, err)
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestGroups: leaks are told by type, without symbols or without RTTI too, by
// text and zeros.
func TestGroups(t *testing.T) {
	for _, flag := range []string{"-g", "-s", "-fno-rtti"} {
		t.Run(flag, func(t *testing.T) {
			p := startTypes(t, flag)
			space, err := symbol.NewSpace(procfs.DefaultRoot, p.PID())
			if err != nil {
				t.Fatal(err)
			}
			defer space.Close()
			resolver := symbol.NewResolver(symbol.Options{})
			defer resolver.Close()
			r, err := Check(t.Context(), p, CheckOptions{Apart: 50 * time.Millisecond,
				Symbol: func(addr uint64) string { return resolver.Object(space, addr) }})
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]int)
			for _, l := range r.Leaks {
				g := r.Heap.Groups[l.Group]
				got[strings.TrimSpace(fmt.Sprintf("%v %v %s %s", l.Kind, g.Class, g.Type, filepath.Base(g.Module)))]++
			}
			for what, n := range map[string]int{
				"definite type shop::Basket<long> types": 5, "definite type (anonymous namespace)::Hidden types": 3,
				"definite text  .": 7, "definite zeros  .": 2, "definite pointer  .": 1,
			} {
				if got[what] != n {
					t.Errorf("%q: %d, want %d", what, got[what], n)
				}
				delete(got, what)
			}
			if len(got) > 0 {
				t.Errorf("more leaks: %v", got)
			}
			checkSamples(t, p, r)
		})
	}
}

// checkSamples requires what the text blocks begin with.
func checkSamples(t *testing.T, p *procfs.Process, r *Result) {
	t.Helper()
	samples, err := r.Samples(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for key, all := range samples {
		if r.Heap.Groups[key.Group].Class == Text {
			for _, s := range all {
				got = append(got, fmt.Sprintf("%d %s", s.Count, s.Text))
			}
		}
	}
	if want := []string{`4 "GET /index.html"`, `3 "HEAD /"`}; !slices.Equal(got, want) {
		t.Errorf("samples %q, want %q", got, want)
	}
}

// TestOverwrittenHeader: a heap that the program itself has corrupted is gone
// through all the same, but for the part around, and what stands there holds
// what it points to.
func TestOverwrittenHeader(t *testing.T) {
	c := startTruth(t, buildTruth(t), nil)
	before := walk(t, c)
	var victim Block
	n := 0
	for b := range before.All {
		if _, own := c.blocks[b.Addr]; own && b.Size() < 1000 {
			if n++; n == 300 {
				victim = b
			}
		}
	}
	poke(t, c.process.PID(), victim.Addr-8, 0x4141414141414141)
	r, err := Check(t.Context(), c.process, CheckOptions{Apart: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	h := r.Heap
	if h.Skipped == 0 || h.Skipped > 64<<10 {
		t.Errorf("%d bytes are passed over", h.Skipped)
	}
	if h.Live.Count < before.Live.Count-20 || h.Live.Count >= before.Live.Count {
		t.Errorf("%d blocks are live, were %d before a header was overwritten", h.Live.Count, before.Live.Count)
	}
	for _, l := range r.Leaks {
		if l.Kind == reach.Definite && !c.lost[l.Addr] {
			t.Errorf("block %#x of %d bytes is %v, but was not lost", l.Addr, l.Size, l.Kind)
		}
	}
}

// poke writes a word into a process's memory.
func poke(t *testing.T, pid int, addr, word uint64) {
	t.Helper()
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, word), int64(addr)); err != nil {
		t.Fatal(err)
	}
}

// TestNoHeap: a process without glibc's allocator in use is told as such.
func TestNoHeap(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "none.c"), filepath.Join(dir, "none")
	if err := os.WriteFile(source, []byte("#include <unistd.h>\nint main(void){write(1,\"ready\\n\",6);pause();}"), 0o644); err != nil {
		t.Fatal(err)
	}
	compile(t, "gcc", "-w", "-static", "-o", program, source)
	cmd := exec.Command(program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if h, err := Walk(p, Options{}); err == nil && h.Live.Count > 16 {
		t.Errorf("found %+v", h.Live)
	} else if err != nil && !strings.Contains(err.Error(), ErrNoArena.Error()) {
		t.Error(err)
	}
}
