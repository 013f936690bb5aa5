//go:build integration

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// recorded runs a program under memtrace run -o, and returns the recording and the Report that was printed.
func recorded(t *testing.T, flags []string, program ...string) (file string, printed []byte) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "trace.memtrace")
	args := append([]string{"run", "-o", file, "--format", "json"}, flags...)
	// The program's answer goes elsewhere, as stdout has the Report.
	cmd := memtraceCommand(t, append(append(args, "--", "sh", "-c", `exec "$0" "$@" >/dev/null`), program...)...)
	out, code := finishLeaks(t, cmd)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	return file, out
}

func openRecording(t *testing.T, path string) *recording.Reader {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r, err := readRecording(context.Background(), f, path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compact is JSON without its layout.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// The Report of a recording is that of the trace, to the byte: the one that it keeps, and the one that is made of
// its inputs again.
func TestRecordingGivesTheReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ flags, program []string }{
		"functions": {nil, []string{testProgram("every_function"), "run"}},
		"threads":   {nil, []string{testProgram("two_threads"), "run"}},
		"freed":     {nil, []string{testProgram("cross_thread_free"), "run"}},
		"leaks":     {[]string{"--leaks"}, []string{testProgram("leak_exec"), "3", "5"}},
		"samples":   {[]string{"--sample-bytes", "16KiB"}, []string{testProgram("samples"), "run"}},
		"pools":     {ownPools, []string{testProgram("own_pools"), "run"}},
		"touches":   {[]string{"--probes", "none"}, []string{testProgram("first_touch"), "run"}},
		"limited":   {[]string{"--max-overhead", "1%"}, []string{testProgram("grow_busily"), "run"}},
		"regions":   {nil, []string{testProgram("regions"), "run"}},
		"children":  {nil, []string{"sh", "-c", `i=0; while [ $i -lt 10 ]; do "$0" run & i=$((i+1)); done; wait`, testProgram("temporary")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, printed := recorded(t, c.flags, c.program...)
			again, code := finishLeaks(t, memtraceCommand(t, "report", "--format", "json", file))
			if got, want := compact(t, again), compact(t, printed); code != 0 || got != want {
				t.Errorf("exit code %d, memtrace report prints\n%.2000s\nwant\n%.2000s", code, got, want)
			}
			replayed, _, err := openRecording(t, file).ReportAt(recording.End, recording.Rooms{}, analyzer.ReportOptions{Final: true, Sort: defaultSort})
			if err != nil {
				t.Fatal(err)
			}
			var want report.Report
			if err := json.Unmarshal(printed, &want); err != nil {
				t.Fatal(err)
			}
			if name == "limited" && !refusesTouch(t) {
				checkTouchedInSpans(t, &want)
			}
			replayed.Outcome, replayed.Made = want.Outcome, want.Made // of the conditions that a job sets, and of where it was made
			if got, want := reportJSON(replayed), reportJSON(&want); !bytes.Equal(got, want) {
				t.Errorf("made again it is\n%.3000s\nwant\n%.3000s", got, want)
			}
		})
	}
}

// checkTouchedInSpans checks that a Report has what grow_busily touched in spans without probes: without it, a
// recording shows nothing of them.
func checkTouchedInSpans(t *testing.T, r *report.Report) {
	t.Helper()
	if r.Overhead == nil || r.Overhead.NoneNS == 0 || r.Touched == nil {
		t.Fatalf("it had probes all the time: %+v, %+v", r.Overhead, r.Touched)
	}
	if touchedFirst(r, "grow_much") == 0 || touchedFirst(r, "grow_some") == 0 || r.Touched.PagesLost != 0 {
		t.Errorf("first touched: %+v", r.Touched)
	}
}

// What lives at an instant is what a naive count of the recording's own events gives, and nothing is missing.
func TestRecordingAtAnyInstant(t *testing.T) {
	t.Parallel()
	file, _ := recorded(t, nil, testProgram("churn"), "run", "3", "2", "0", "20000", "1000")
	r := openRecording(t, file)
	var events []event.Event
	err := r.Inputs(func(in input.Input) error {
		if v, ok := in.(*input.Events); ok {
			events = append(events, v.Events...)
		}
		return nil
	}, func(g recording.Gap) error { return fmt.Errorf("%+v is missing", g) })
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 10; i++ {
		at := events[len(events)*i/10-1].Time
		got, _, err := r.ReportAt(at, recording.Rooms{}, analyzer.ReportOptions{Final: true})
		if err != nil {
			t.Fatal(err)
		}
		live := make(map[uint32][2]uint64)
		for _, p := range got.Processes {
			if p.Heap.LiveCount > 0 {
				live[uint32(p.PID)] = [2]uint64{p.Heap.LiveCount, p.Heap.LiveBytes}
			}
		}
		if want := naiveLive(events, at); !maps.Equal(live, want) {
			t.Errorf("at %d of %d events: %v, want %v", len(events)*i/10, len(events), live, want)
		}
	}
}

// naiveLive counts blocks and bytes that live in each process of a trace without forks.
func naiveLive(events []event.Event, at uint64) map[uint32][2]uint64 {
	live := make(map[uint32]map[uint64]uint64)
	for _, e := range events {
		if e.Time > at {
			break
		}
		blocks := live[e.PID]
		if blocks == nil {
			blocks = make(map[uint64]uint64)
			live[e.PID] = blocks
		}
		switch e.Kind {
		case event.Alloc:
			blocks[e.Addr] = e.Size
		case event.Free:
			delete(blocks, e.Addr)
		case event.Realloc:
			delete(blocks, e.Old)
			if e.Addr != 0 {
				blocks[e.Addr] = e.Size
			}
		case event.Exec:
			clear(blocks)
		}
	}
	out := make(map[uint32][2]uint64)
	for pid, blocks := range live {
		var sum [2]uint64
		for _, size := range blocks {
			sum[0], sum[1] = sum[0]+1, sum[1]+size
		}
		if sum[0] > 0 {
			out[pid] = sum
		}
	}
	return out
}

// allIn reports whether a Report has all that a program has done: meanwhile as much may live as in the end.
func (c *child) allIn(t *testing.T, r *report.Report) bool {
	t.Helper()
	return len(r.Processes) > 0 && r.Events.Alloc >= c.total(t, "alloc") &&
		r.Processes[0].Heap.LiveBytes == c.total(t, "live_bytes")
}

// awaitAll reads Reports until one has all that a program has done.
func (tr *tracing) awaitAll(c *child) {
	tr.t.Helper()
	for r := tr.report(); !c.allIn(tr.t, &r); r = tr.report() {
	}
}

// A memtrace that is killed leaves a recording of all but the last second, with names, and says that it was not closed.
// It may be read while it is written.
func TestRecordingOfAKilledMemtrace(t *testing.T) {
	t.Parallel()
	c := program(t, "every_function")
	file := filepath.Join(t.TempDir(), "trace.memtrace")
	tr := attach(t, c.cmd.Process.Pid, "-o", file)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	want := c.total(t, "live_bytes")
	tr.awaitAll(c)
	// What it has seen is in the file about a second later, however long that is on a busy machine.
	eventually(t, "the file has all", func() bool {
		tr.report() // memtrace waits for who reads
		if !readable(file) {
			return false
		}
		r, _ := recordedAs(t, file)
		return c.allIn(t, &r)
	})
	check := func() {
		t.Helper()
		var complaints bytes.Buffer
		cmd := memtraceCommand(t, "report", "--format", "json", file)
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		var r report.Report
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, complaints.String())
		}
		if got := r.Processes[0].Heap.LiveBytes; got != want || !strings.Contains(fmt.Sprint(r.Warnings), "was not closed") {
			t.Errorf("%d live bytes, want %d; warnings %q", got, want, r.Warnings)
		}
		named := false
		for _, s := range r.Sites {
			named = named || s.Stack[0].File != ""
		}
		if !named {
			t.Error("no site has a name")
		}
	}
	check()
	if err := tr.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tr.cmd.Wait()
	check()
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// A disk that is full is said at once; the trace goes on to its end, and what is on the disk can be read.
func TestRecordingOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=600k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	file := filepath.Join(dir, "trace.memtrace")
	var complaints bytes.Buffer
	cmd := memtraceCommand(t, "record", "-o", file, "--", testProgram("churn"), "run", "3", "1", "0", "1000000", "20000")
	cmd.Stderr = &complaints
	answer, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || strings.Count(complaints.String(), "no space left on device") != 1 ||
		!strings.Contains(complaints.String(), "nothing is recorded from now on") {
		t.Errorf("%v: %s", err, complaints.String())
	}
	if !bytes.Contains(answer, []byte("elapsed_ns")) {
		t.Errorf("the program did not come to its end: %s", answer)
	}
	r := openRecording(t, file)
	events := 0
	if err := r.Inputs(func(in input.Input) error {
		if v, ok := in.(*input.Events); ok {
			events += len(v.Events)
		}
		return nil
	}, nil); err != nil || events == 0 || r.Closed() {
		t.Errorf("%d events, closed %v: %v", events, r.Closed(), err)
	}
}

// What is there already and is no recording is refused, and so is what another memtrace writes; nothing is started.
func TestRecordingIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("important\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused := func(path, why string) {
		t.Helper()
		mark := filepath.Join(dir, "started")
		var complaints bytes.Buffer
		cmd := memtraceCommand(t, "record", "-o", path, "--", "touch", mark)
		cmd.Stderr = &complaints
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(complaints.String(), why) {
			t.Errorf("%s: %v: %s, want %q", path, err, complaints.String(), why)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: the command was started", path)
		}
	}
	refused(text, "no recording of memtrace")
	if kept, err := os.ReadFile(text); err != nil || string(kept) != "important\n" {
		t.Errorf("the file has %q now, %v", kept, err)
	}
	refused(dir, "is a directory")
	refused("/dev/null", "no regular file")
	refused(filepath.Join(dir, "missing", "x"), "no such file")

	c := program(t, "two_threads")
	file := filepath.Join(dir, "trace.memtrace")
	tr := attach(t, c.cmd.Process.Pid, "-o", file)
	refused(file, "another memtrace is writing it")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	tr.interrupt()
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// A trace that can't begin leaves no file, and an earlier recording as it was.
func TestRecordingOfNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "trace.memtrace")
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	fails := func() {
		t.Helper()
		if out, code := finishLeaks(t, memtraceCommand(t, "record", "-o", file, "-p", strconv.Itoa(gone.ProcessState.Pid()))); code != exitFailed {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	fails()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was left: %v", err)
	}
	link := filepath.Join(filepath.Dir(file), "link")
	if err := os.Symlink("trace.memtrace", link); err != nil {
		t.Fatal(err)
	}
	if out, code := finishLeaks(t, memtraceCommand(t, "record", "-o", link, "-p", strconv.Itoa(gone.ProcessState.Pid()))); code != exitFailed {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was left where a link leads to: %v", err)
	}
	if out, code := finishLeaks(t, memtraceCommand(t, "record", "-o", link, "--", testProgram("temporary"), "run")); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fails()
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%d bytes, %d before: %v", len(after), len(before), err)
	}
}
