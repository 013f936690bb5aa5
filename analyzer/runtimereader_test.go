//go:build linux && !viewer

package analyzer

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/runtimemap"
	"github.com/memtrace/memtrace/procfs"
)

// A process without a runtime is not looked at again until it has mapped code.
func TestNoRuntimeIsRemembered(t *testing.T) {
	p := openSelf(t)
	var r runtimeReader
	if found, _ := r.read(p); found != nil {
		t.Fatalf("this test has the runtime %+v", found)
	}
	for range 2 {
		if found, _ := r.read(p); found != nil || r.answer != nil {
			t.Fatalf("found %+v", found)
		}
		if r.begin(p) {
			t.Fatal("it is looked at again")
		}
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	code, err := unix.Mmap(int(exe.Fd()), 0, 1<<16, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(code) }()
	if !r.begin(p) {
		t.Fatal("it is not looked at again, though it has mapped code")
	}
	<-r.answer
}

// While a process has not answered, samples do without, also those of the program that it executes next: there is one
// read at a time.
func TestRuntimeThatDoesNotAnswer(t *testing.T) {
	p := openSelf(t)
	r := runtimeReader{answer: make(chan runtimeAnswer, 1), last: runtimeAnswer{at: time.Now()}}
	for range 3 {
		if found, parts := r.read(p); found == nil || found.Problem == "" || parts != nil {
			t.Fatalf("%+v, %v", found, parts)
		}
	}
	waits := r.answer
	r = r.ofNextProgram()
	if found, _ := r.read(p); found == nil || found.Problem == "" || r.answer != waits {
		t.Fatalf("%+v", found)
	}
	waits <- runtimeAnswer{} // that of the program before
	for r.without == 0 {     // it is read beside, and not waited for
		r.read(p)
	}
	if found, _ := r.read(p); found != nil {
		t.Errorf("%+v", found)
	}
}

// After an answer that came late each sample has parts, and says of what time they are, until samples are waited for
// again; another program has none of them.
func TestRuntimeAfterALateAnswer(t *testing.T) {
	p := openSelf(t)
	var v8 runtimemap.Runtime
	deliver := make(chan []runtimemap.Part)
	defer close(deliver)
	r := runtimeReader{by: func(*procfs.Process, *runtimemap.Runtime) runtimeAnswer {
		return runtimeAnswer{runtime: &v8, is: input.Runtime{Name: "v8"}, parts: <-deliver}
	}}
	late := func(i uint64, took time.Duration) { // the reading at work answers
		deliver <- []runtimemap.Part{{Start: i, End: i + 1}}
		a := <-r.answer
		a.took = took
		r.answer <- a
	}
	expect := func(what, problem string, part uint64) {
		t.Helper()
		found, parts := r.read(p)
		if found == nil || found.Name != "v8" || (problem == "") != (found.Problem == "") ||
			!strings.Contains(found.Problem, problem) {
			t.Fatalf("%s: the runtime is %+v, want the problem %q", what, found, problem)
		}
		if part == 0 && parts != nil || part != 0 && (len(parts) != 1 || parts[0].Start != part) {
			t.Fatalf("%s: parts %v, want that at %d", what, parts, part)
		}
	}
	if !r.begin(p) {
		t.Fatal("nothing is read")
	}
	for i := uint64(1); i <= 3; i++ {
		late(i, time.Hour)
		r.expectSlow(t, p)
		expect("while the next one is late", "before, as its memory comes late", i)
	}
	late(4, 0)
	go func() { deliver <- []runtimemap.Part{{Start: 5, End: 6}} }()
	expect("in time again", "", 5)
	if !r.begin(p) {
		t.Fatal("nothing is read")
	}
	r.last.at = r.last.at.Add(-partsKeep - time.Second)
	expect("what is too old", "in time", 0)
	r = r.ofNextProgram()
	r.by = func(*procfs.Process, *runtimemap.Runtime) runtimeAnswer {
		return runtimeAnswer{findErr: runtimemap.ErrNone}
	}
	late(6, 0)
	if found, parts := r.read(p); found != nil || parts != nil {
		t.Fatalf("the next program has %+v, %v", found, parts)
	}
}

// expectSlow takes an answer that came late, after which the next reading is at work.
func (r *runtimeReader) expectSlow(t *testing.T, p *procfs.Process) {
	t.Helper()
	found, parts := r.read(p)
	if found == nil || !strings.Contains(found.Problem, "late") || len(parts) != 1 || r.answer == nil {
		t.Fatalf("an answer that came late: %+v, %v", found, parts)
	}
}
