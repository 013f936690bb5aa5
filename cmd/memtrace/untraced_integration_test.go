//go:build integration

package main

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// startBusy starts a test program that runs on without a line on stdin.
func startBusy(t *testing.T, name string) *spawned {
	t.Helper()
	return spawn(t, exec.Command(testProgram(name), "run"))
}

// checkFromOutside runs memtrace leaks on a process.
func checkFromOutside(t *testing.T, pid int, more ...string) *report.Report {
	t.Helper()
	args := append([]string{"leaks", "-p", strconv.Itoa(pid), "--format", "json"}, more...)
	cmd := memtraceCommand(t, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("memtrace %v: %v, %s", args, err, &said)
	}
	if lines := bytes.Count(out, []byte("\n")); lines != 1 {
		t.Errorf("memtrace %v prints %d lines, want one as all other Reports in JSON", args, lines)
	}
	return parseReport(t, string(out))
}

// TestUntracedHeap compares what is found from outside with what the program
// says that it lost.
func TestUntracedHeap(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(testProgram("heap_truth")))
	want := make(map[uint64]uint64) // lost blocks by size
	var live uint64
	for {
		line, ok := p.line()
		if !ok {
			t.Fatalf("the program ended: %s", p.errors)
		}
		if line == "ready" {
			break
		}
		f := strings.Fields(line)
		if f[0] != "block" {
			continue
		}
		live++
		if size, err := strconv.ParseUint(f[2], 10, 64); err != nil {
			t.Fatal(err)
		} else if f[3] == "lost" {
			want[size]++
		}
	}
	for _, more := range [][]string{nil, {"--stop"}} {
		r := checkFromOutside(t, p.pid(), more...)
		got := make(map[uint64]uint64)
		for i := range r.Leaks {
			l := &r.Leaks[i]
			if l.Kind == "definite" {
				got[r.Site(l.Site).Group.Size] += l.Count
			}
			if p, s := l.Pages, r.Site(l.Site); p == nil || p.Resident+p.Untouched+p.Swapped != l.Bytes ||
				p.Resident > s.ResidentBytes || s.ResidentBytes+s.UntouchedBytes+s.SwappedBytes != s.LiveBytes {
				t.Errorf("%v: the pages of %+v are %+v, of its group %+v", more, l, p, s)
			} else if l.Bytes < 4096 && p.Resident != l.Bytes {
				t.Errorf("%v: of %d bytes of small blocks, which were written, %d are resident", more, l.Bytes, p.Resident)
			}
		}
		for size, n := range want {
			if got[size] != n {
				t.Errorf("%v: %d blocks of %d bytes are definite, want %d", more, got[size], size, n)
			}
			delete(got, size)
		}
		if len(got) > 0 {
			t.Errorf("%v: these were not lost, by size: %v", more, got)
		}
		if n := r.Processes[0].Heap.LiveCount; n < live || n > live+16 { // the C library has some of its own
			t.Errorf("%v: %d blocks are live, want %d", more, n, live)
		}
		if stopped := r.Processes[0].LeakCheck.PauseNS > 0; stopped != (more != nil) {
			t.Errorf("%v: stood still for %d ns", more, r.Processes[0].LeakCheck.PauseNS)
		}
	}
	if _, code := runLeaks(t, "leaks", "-p", strconv.Itoa(p.pid()), "--fail-on", "definite", "--error-exitcode", "9"); code != 9 {
		t.Errorf("--fail-on exits with %d", code)
	}
	p.end() // unharmed
}

// TestNothingIsLostByMovingUntraced checks programs that move pointers about,
// rebuild tables and allocate the same again all the time.
func TestNothingIsLostByMovingUntraced(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]uint64{"leak_moves": 0, "leak_rebuild": 25} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startBusy(t, name)
			for range 2 {
				var definite uint64
				r := checkFromOutside(t, p.pid())
				for i := range r.Leaks {
					l, group := &r.Leaks[i], r.Site(r.Leaks[i].Site).Group
					if l.Kind == "definite" && group.Size >= 777 && group.Size <= 792 {
						definite += l.Count
					} else if l.Kind != "possible" {
						t.Errorf("%+v of %+v", l, group)
					}
				}
				if definite != lost {
					t.Errorf("%d blocks are definite, want %d", definite, lost)
				}
				w := r.Processes[0].HeapWalk
				t.Logf("%d live, %d cleared, looked at %d times, %d bytes not gone through, %v ms", r.Processes[0].Heap.LiveCount, w.ClearedCount, w.Looks, w.SkippedBytes, w.TookNS/1e6)
			}
		})
	}
}

// TestUntracedAllocatorsAreRefused by name, and with what to do instead.
func TestUntracedAllocatorsAreRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"every_function_musl": "its allocator is musl", "every_function_musl_static": "its allocator is musl", "plain_sleep": "allocated nothing",
	} {
		p := startUntraced(t, name)
		out, err := memtraceCommand(t, "leaks", "-p", strconv.Itoa(p.pid())).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "--leaks") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

func startUntraced(t *testing.T, name string) *spawned {
	t.Helper()
	if name == "plain_sleep" {
		return spawn(t, exec.Command(testProgram(name)))
	}
	return startProgram(t, name)
}
