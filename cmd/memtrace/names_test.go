//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/cmd/memtrace/naming"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
)

// noNames names what is looked at from now on.
func noNames(t *testing.T) *naming.Namer {
	t.Helper()
	n := naming.New(symbol.Options{}, nil)
	t.Cleanup(n.Close)
	return n
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
	proc := t.TempDir() // has this test and what started it, as processes of the session
	for of, id := range map[int]int{os.Getpid(): pid, os.Getppid(): shell} {
		if err := os.Symlink(fmt.Sprintf("/proc/%d", of), filepath.Join(proc, strconv.Itoa(id))); err != nil {
			t.Fatal(err)
		}
	}
	s.names = noNames(t)
	for _, id := range []int{pid, shell} {
		if space, err := s.names.Look(proc, id, 1, func() bool { return true }); err != nil || space == nil {
			t.Fatalf("process %d has no names: %v, %v", id, space, err)
		}
	}

	pc := uint64(reflect.ValueOf(identify).Pointer()) + 1
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
	code, file := firstCode(t, filepath.Join(proc, strconv.Itoa(shell), "maps"))
	if f := s.names.Frames(s.names.Run(), pid, []uint64{code + 1}, now()); len(f) == 0 || f[0].Module != file {
		t.Errorf("the second process's code at %#x is taken for %+v, want its parent's %s", code, f, file)
	}
}

// firstCode returns where the first file that a process has mapped as code begins, and its path.
func firstCode(t *testing.T, maps string) (start uint64, path string) {
	t.Helper()
	text, err := os.ReadFile(maps)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 6 && f[1] == "r-xp" && f[5][0] == '/' {
			begin, _, _ := strings.Cut(f[0], "-")
			if start, err = strconv.ParseUint(begin, 16, 64); err != nil {
				t.Fatal(err)
			}
			return start, f[5]
		}
	}
	t.Fatalf("no code in %s", text)
	return 0, ""
}
