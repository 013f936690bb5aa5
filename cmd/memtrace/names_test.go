//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/python"
)

func ownSpace(t *testing.T) *symbol.Space {
	t.Helper()
	s, err := symbol.NewSpace("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testNamer(t *testing.T) *namer {
	t.Helper()
	n := newNamer(symbol.Options{}, nil)
	t.Cleanup(n.close)
	return n
}

// Stacks share the Python frames that they have in common: a recording writes each once, and an Analyzer counts them so.
func TestStacksSharePythonFrames(t *testing.T) {
	asked := 0
	n := newNamer(symbol.Options{}, func(frame uint64) (python.Name, bool) {
		asked++
		return python.Name{Function: "f", Line: int(frame - event.PythonFrames)}, true
	})
	t.Cleanup(n.close)
	s := ownSpace(t)
	defer s.Close()
	n.set(os.Getpid(), s, 1)
	run := n.resolver.Run()
	a := n.frames(run, os.Getpid(), []uint64{event.PythonFrames + 1, event.PythonFrames + 2}, 1)
	b := n.frames(run, os.Getpid(), []uint64{event.PythonFrames + 3, event.PythonFrames + 2}, 1)
	if asked != 3 || a[1] != b[1] || a[0] == b[0] || a[1].Line != 2 {
		t.Errorf("%d names were made for three frames: %+v and %+v", asked, a, b)
	}
}

// A process that executes two programs and ends before any of it is read from
// the events keeps its first names up to the first exec, has none of its second
// program, which nobody looked at, and those of its last after the second.
func TestNamesOfProgramsStillToCome(t *testing.T) {
	n, pid := testNamer(t), os.Getpid()
	first := ownSpace(t)
	defer first.Close()
	n.set(pid, first, 1)
	n.replaced(pid, true, 20)
	n.replaced(pid, false, 21) // more is mapped
	n.replaced(pid, true, 40)
	n.last("/proc", pid, 45)
	late := ownSpace(t)
	defer late.Close()
	if n.set(pid, late, 1) {
		t.Error("names that were read as the process ended replace those that were read before")
	}
	if n.space(pid) != first {
		t.Error("the names of the first program are gone before its exec")
	}
	n.executed(pid, 10)
	if n.space(pid) != nil {
		t.Error("the second program has another's names")
	}
	n.executed(pid, 30)
	if s := n.space(pid); s == nil || s == first {
		t.Errorf("the names of the last program are %p, those of the first %p", s, first)
	}
	n.forget(pid)
	if n.space(pid) == nil {
		t.Error("a process that has ended has lost its names")
	}
	if len(n.next)+len(n.ahead)+len(n.fresh)+len(n.final)+len(n.stopped)+len(n.read) > 0 {
		t.Errorf("of an ended process are left: next %v, ahead %v, fresh %v, final %v, stopped %v, read %v",
			n.next, n.ahead, n.fresh, n.final, n.stopped, n.read)
	}
}

// What is found between two execs belongs to the first of them.
func TestNamesFoundBetweenTwoExecs(t *testing.T) {
	n, pid := testNamer(t), os.Getpid()
	spaces := [4]*symbol.Space{}
	for i := range spaces {
		spaces[i] = ownSpace(t)
		defer spaces[i].Close()
	}
	n.set(pid, spaces[0], 1)
	n.replaced(pid, true, 20)
	n.set(pid, spaces[1], 1)
	n.replaced(pid, true, 40)
	n.set(pid, spaces[2], 1)
	n.set(pid, spaces[3], 1) // a second look at the same program
	for i, want := range []*symbol.Space{spaces[0], spaces[1], spaces[3]} {
		if i > 0 {
			n.executed(pid, uint64(20*i-10))
		}
		if n.space(pid) != want {
			t.Errorf("after %d execs the names are %p, want %p", i, n.space(pid), want)
		}
	}
}

// An exec may be read from the events before the process that stands still at
// it is noticed: it is then not still to come.
func TestNamesOfAnExecThatIsReadFirst(t *testing.T) {
	n, pid := testNamer(t), os.Getpid()
	first, second := ownSpace(t), ownSpace(t)
	defer first.Close()
	defer second.Close()
	n.executed(pid, 10)
	n.replaced(pid, true, 20)
	n.set(pid, first, 1)
	if n.space(pid) != first {
		t.Error("the program whose exec was read first has no names")
	}
	n.replaced(pid, true, 40)
	n.set(pid, second, 1)
	if n.space(pid) != first {
		t.Error("the names of the first program are gone before the second's exec")
	}
	n.executed(pid, 30)
	if n.space(pid) != second {
		t.Error("the second program has not its names")
	}
}

// A process that was looked at as it stood still at its end is described as it
// was then, once its last event has been read and it is long gone.
func TestEndedProcessIsNamed(t *testing.T) {
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	own, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	want := identify(own)
	if exe, err := os.Executable(); err != nil || want.exe != exe || want.comm == "" {
		t.Fatalf("the test is %+v, want %s (%v)", want, exe, err)
	}
	s := &session{analyzer: analyzer.New(analyzer.Config{})}
	s.take(input.Started{ProcessInfo: analyzer.ProcessInfo{PID: uint32(pid), Comm: "before", Exe: "/bin/before", Allocators: []string{"known"}}})
	s.known.look(fs, newAttacher(nil, fs, false), pid)
	s.nameEnded(pid)
	info, known := s.analyzer.Info(uint32(pid))
	if !known || info.Comm != want.comm || info.Exe != want.exe || !slices.Equal(info.InnerPIDs, want.inner) {
		t.Errorf("the ended process is %+v, want %+v", info, want)
	}
	if !slices.Equal(info.Allocators, []string{"known"}) { // it has executed nothing
		t.Errorf("its allocators are %q, want those that were known", info.Allocators)
	}
	if len(s.known.by) > 0 {
		t.Errorf("kept of ended processes: %v", s.known.by)
	}
}

// The stacks of a process that has ended keep its names when another one gets its PID.
func TestNamesOfAProcessWhosePIDComesAgain(t *testing.T) {
	const shell, pid = 1 << 30, 1<<30 + 1
	s, _ := jobOf(t, "definite", true)
	s.names = testNamer(t)
	mine := ownSpace(t)
	defer mine.Close()
	s.names.set(pid, mine, 1)
	other, err := symbol.NewSpace("/proc", os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s.names.set(shell, other, 1)

	pc := uint64(reflect.ValueOf(ownSpace).Pointer()) + 1
	s.take(input.Started{ProcessInfo: analyzer.ProcessInfo{PID: pid}})
	s.take(input.Stack{Stack: event.Stack{ID: 1, PID: pid, Frames: []uint64{pc}}})
	s.take(&input.Events{Events: []event.Event{
		{Kind: event.Alloc, PID: pid, TID: pid, Addr: 0x1000, Size: 8, Stack: 1}, {Kind: event.Exit, PID: pid},
	}})
	s.inheritNames(event.Event{Kind: event.Fork, PID: shell, Child: pid, Time: now()})
	r := s.reportOf(analyzer.ReportOptions{})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Sites[0].Stack[0]; f.Module != exe {
		t.Errorf("the first process's code is taken for %+v, want some of %s", f, exe)
	}
	if s.names.space(pid) != other {
		t.Error("the second process has not its parent's names")
	}
}

// A child goes by what its parent had mapped when it forked, until it is looked at itself. That
// its fork is read later changes nothing.
func TestNamesOfAChildThatIsLookedAtFirst(t *testing.T) {
	const parent = 1 << 30
	n, pid := testNamer(t), os.Getpid()
	mine := ownSpace(t)
	defer mine.Close()
	n.set(parent, mine, 10)
	n.like(pid, parent, 20)
	if n.space(pid) != mine || n.forked[pid] != 20 {
		t.Errorf("the child's names are %p as of %d, want its parent's %p as of 20", n.space(pid), n.forked[pid], mine)
	}
	alive := func() bool { return true }
	own, err := n.look("/proc", pid, 30, alive)
	if err != nil || own == nil || own == mine || n.space(pid) != own {
		t.Errorf("the child's own names are %p, %p (%v), the parent's %p", own, n.space(pid), err, mine)
	}
	n.like(pid, parent, 20)
	if n.space(pid) != own {
		t.Error("late news of the fork took the child's own names")
	}
	if again, err := n.look("/proc", pid, 40, alive); err != nil || again != own {
		t.Errorf("looked at again it is %p (%v), want %p", again, err, own)
	}
	n.like(pid, parent, 50) // another process has the PID
	if n.space(pid) != mine {
		t.Error("the next process of the PID has the names of the one before")
	}
}

// A child's fork may be read just while its mappings are, when it has executed a program already. What it ran
// before is named by its parent's code, however the two fall.
func TestNamesOfAChildWhoseForkIsReadWhileItIsLookedAt(t *testing.T) {
	const parent, child = 1 << 30, 1<<30 + 1
	n, mine := testNamer(t), ownSpace(t)
	defer mine.Close()
	n.set(parent, mine, 10)
	proc := filepath.Join(t.TempDir(), strconv.Itoa(child))
	maps := filepath.Join(proc, "maps")
	if err := errors.Join(os.Mkdir(proc, 0o700), unix.Mkfifo(maps, 0o600)); err != nil {
		t.Fatal(err)
	}
	looked := make(chan error, 1)
	go func() {
		_, err := n.look(filepath.Dir(proc), child, 30, func() bool { return true })
		looked <- err
	}()
	program, err := os.OpenFile(maps, os.O_WRONLY, 0) // once it is being read
	if err != nil {
		t.Fatal(err)
	}
	n.like(child, parent, 20)
	_, err = program.WriteString("1000-2000 r-xp 00000000 00:00 0\n")
	if err := errors.Join(err, program.Close(), <-looked); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	here := uint64(reflect.ValueOf(ownSpace).Pointer() + 1)
	if frames := n.frames(n.resolver.Run(), child, []uint64{here}, 25); len(frames) != 1 || frames[0].Module != exe {
		t.Errorf("what the child ran before its exec is taken for %+v, want some of %s", frames, exe)
	}
	frames := n.frames(n.resolver.Run(), child, []uint64{0x1800}, 35)
	if len(frames) != 1 || frames[0].Module != "[anon]" {
		t.Errorf("what it ran after is named %+v, want memory of its own", frames)
	}
}
