//go:build linux && !viewer

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/tracer/event"
)

// recordTwo makes a recording of two processes: 7 holds 100 of 300 bytes, 8 holds 50.
func recordTwo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "two.memtrace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(f, recording.Header{Version: "test", Config: recording.Config{Start: 1e9, Seed: [2]uint64{1, 2}}}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []uint32{7, 8} {
		w.Take(input.Started{ProcessInfo: input.ProcessInfo{PID: pid, Comm: "shop"}})
		w.Take(input.Stack{Stack: event.Stack{ID: 5, Time: 1e9, PID: pid, Frames: []uint64{0x1234}}})
	}
	w.Take(&input.Events{Events: []event.Event{
		{Time: 2e9, PID: 7, TID: 7, Kind: event.Alloc, Addr: 0x1000, Size: 100, Stack: 5},
		{Time: 3e9, PID: 7, TID: 7, Kind: event.Alloc, Addr: 0x2000, Size: 200, Stack: 5},
		{Time: 4e9, PID: 7, TID: 7, Kind: event.Free, Addr: 0x2000},
		{Time: 5e9, PID: 8, TID: 8, Kind: event.Alloc, Addr: 0x1000, Size: 50, Stack: 5},
	}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// export runs memtrace export.
func exportOf(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"export"}, args...)...)
	cmd.Env = append(os.Environ(), asMemtrace+"=1", "NO_COLOR=1")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	return string(out), complaints.String(), err
}

func TestRecordingsAreExportedBlockByBlock(t *testing.T) {
	t.Parallel()
	file := recordTwo(t)
	text, complaints, err := exportOf(t, file, "--format", "heaptrack", "--pid", "7")
	want := "a 64 1\n+ 1\nc 7d0\na c8 1\n+ 2\nc bb8\n- 2\n"
	if err != nil || !strings.HasPrefix(text, "v 10000 1\n") || !strings.Contains(text, want) || complaints != "" {
		t.Errorf("%v: %s%s", err, text, complaints)
	}
	text, complaints, err = exportOf(t, file+"@1500ms", "--format", "heaptrack") // before the second process
	if err != nil || !strings.HasSuffix(text, "c 3e8\na 64 1\n+ 1\n") || complaints != "" {
		t.Errorf("%v: %s%s", err, text, complaints)
	}
	text, complaints, err = exportOf(t, file, "--format", "firefox")
	var profile struct {
		Threads []struct {
			NativeAllocations struct{ Time, Weight []float64 }
		}
	}
	if json.Unmarshal([]byte(text), &profile) != nil || len(profile.Threads) != 2 || err != nil || complaints != "" {
		t.Fatalf("%v: %s%s", err, text, complaints)
	}
	if a := profile.Threads[0].NativeAllocations; len(a.Weight) != 3 || a.Weight[0]+a.Weight[1]+a.Weight[2] != 100 || a.Time[2] != 3000 {
		t.Errorf("%+v", a)
	}
	out := filepath.Join(t.TempDir(), "trace.pftrace")
	if text, complaints, err := exportOf(t, file, "--format", "perfetto", "-o", out); err != nil || text+complaints != "" {
		t.Errorf("%v: %s%s", err, text, complaints)
	}
	if trace, err := os.ReadFile(out); err != nil || !strings.Contains(string(trace), "live heap") {
		t.Errorf("%v: %q", err, trace)
	}
}

func TestWhatIsWrongWithAnExportOfBlocks(t *testing.T) {
	t.Parallel()
	file := recordTwo(t)
	for want, args := range map[string][]string{
		"which process: heaptrack holds one, and the recording has 2; name one with --pid: 7 (shop, 2 allocations), 8 (shop, 1 allocations)\n": {file, "--format", "heaptrack"},
		"which process: no block of PID 9 is in the recording\n":                                                                               {file, "--format", "heaptrack", "--pid", "9"},
		"firefox is written of one recording, which is a file":                                                                                 {file, file, "--format", "firefox"},
		"heaptrack is written of one recording, which is a file":                                                                               {"-", "--format", "heaptrack"},
		"heaptrack has all blocks: leave --kind and --inverted out":                                                                            {file, "--format", "heaptrack", "--kind", "live"},
		"--pid is for heaptrack, firefox, perfetto":                                                                                            {file, "--format", "pprof", "--pid", "7"},
		"the readers of perfetto know no zstd: name a file without .zst":                                                                       {file, "--format", "perfetto", "-o", "trace.zst"},
		" at 6s: the recording has no such time: it lasts 4s, from ":                                                                           {file + "@6s", "--format", "perfetto"},
		"\"then\" is no time: ": {file, "--format", "firefox", "--at", "then"},
		"read a recording: open missing: no such file or directory": {"missing", "--format", "perfetto"},
		"--pid -1 is no PID": {file, "--format", "firefox", "--pid=-1"},
		"--format \"pdf\" is none of pprof, folded, flamegraph, html, speedscope": {file, "--format", "pdf"},
	} {
		if text, complaints, err := exportOf(t, args...); err == nil || !strings.Contains(complaints, want) || text != "" {
			t.Errorf("%v: %v: %s%s, want %s", args, err, text, complaints, want)
		}
	}
}
