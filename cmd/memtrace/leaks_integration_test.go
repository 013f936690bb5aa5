//go:build integration

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// sum counts blocks and their bytes.
type sum struct{ count, bytes uint64 }

// TestRunFindsWhatTheCorpusLost compares the verdicts at a program's end with
// what the program says that it lost.
func TestRunFindsWhatTheCorpusLost(t *testing.T) {
	t.Parallel()
	runCorpus(t, "leak_corpus")
}

func runCorpus(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	out, code := runLeaks(t, "run", "--leaks", "--format", "json", "--report", file, "--", testProgram(name), "x")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	compareSums(t, readReport(t, file), corpusSums(t, out, ""))
}

// TestCorporaEndToEnd is the same for Rust, and for both where the program ran
// when memtrace came, which does not know what was freed before then: a pointer
// left in freed memory counts.
func TestCorporaEndToEnd(t *testing.T) {
	t.Parallel()
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		runCorpus(t, "leak_corpus_rust")
	})
	for _, name := range []string{"leak_corpus", "leak_corpus_rust"} {
		t.Run("attached/"+name, func(t *testing.T) {
			t.Parallel()
			a := attachToProgram(t, exec.Command(testProgram(name), "attach"))
			a.proceed(t)
			var r report.Report
			for !r.Final {
				r = a.next(t)
			}
			if code := a.code(); code != 0 {
				t.Errorf("the program's exit code is %d", code)
			}
			compareSums(t, &r, corpusSums(t, a.said.Bytes(), "only_from_a_freed_block"))
		})
	}
}

func compareSums(t *testing.T, r *report.Report, want map[string]sum) {
	t.Helper()
	got := make(map[string]sum)
	for _, l := range r.Leaks {
		if s := got[l.Kind]; l.Kind != "growing" && l.Kind != "old" {
			got[l.Kind] = sum{s.count + l.Count, s.bytes + l.Bytes}
		}
	}
	for _, kind := range []string{"definite", "indirect", "possible"} {
		if got[kind] != want[kind] || want[kind].count == 0 {
			t.Errorf("%s: %+v, want %+v", kind, got[kind], want[kind])
		}
	}
}

// corpusSums adds up the cases that the corpus prints, by what they are to be,
// but one.
func corpusSums(t *testing.T, out []byte, but string) map[string]sum {
	t.Helper()
	sums := make(map[string]sum)
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) != 4 || f[0] != "case" || f[1] == but {
			continue
		}
		var size uint64
		if _, err := fmt.Sscan(f[2], &size); err != nil {
			t.Fatal(err)
		}
		for kind := range strings.SplitSeq(strings.ReplaceAll(f[3], "one ", ""), ", ") {
			s := sums[kind]
			sums[kind] = sum{s.count + 1, s.bytes + size}
		}
	}
	return sums
}

// runLeaks runs memtrace and returns its stdout and exit code.
func runLeaks(t *testing.T, args ...string) ([]byte, int) {
	t.Helper()
	return finishLeaks(t, memtraceCommand(t, args...))
}

func finishLeaks(t *testing.T, cmd *exec.Cmd) ([]byte, int) {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	t.Logf("stderr: %s", complaints.String())
	return out.Bytes(), cmd.ProcessState.ExitCode()
}

func TestFailOnVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"run", "--fail-on", "definite", "--", testProgram("without_malloc")}, 0},
		{[]string{"run", "--fail-on", "definite", "--", testProgram("without_malloc"), "own"}, exitFailed},
		{[]string{"run", "--fail-on", "definite", "--", testProgram("leak_corpus"), "x"}, 23},
		{[]string{"run", "--fail-on", "possible", "--error-exitcode", "9", "--", testProgram("leak_corpus"), "x"}, 9},
		{[]string{"run", "--fail-on", "definite,indirect,possible", "--", testProgram("touch"), "run"}, 0},
		{[]string{"run", "--fail-on", "definite", "--", testProgram("every_function"), "nonsense"}, 2},
		// Nothing is known of a program without an allocator: that is no pass.
		{[]string{"run", "--fail-on", "definite", "--", testProgram("plain_sleep")}, 1},
	} {
		if _, code := runLeaks(t, c.args...); code != c.code {
			t.Errorf("memtrace %v exits with %d, want %d", c.args, code, c.code)
		}
	}
}

// TestFailOnUntracedProgram: a program of which nothing can be seen is no pass where
// another process executes it, just as where memtrace starts it. One that is
// traced afterwards is.
func TestFailOnUntracedProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script, program string
		code            int
		why             string
	}{
		{`exec "$0" run > /dev/null`, "every_function_static_stripped", 1, "a static program without symbols"},
		{`"$0" run > /dev/null; true`, "every_function_static_stripped", 1, "a static program without symbols"},
		{`(exec "$0" run) > /dev/null; true`, "every_function_static_stripped", 1, "a static program without symbols"},
		{`exec busybox sh -c 'exec "$0" run > /dev/null' "$0"`, "touch", 0, ""},
		{`exec busybox sh -c 'exec "$0" run return > /dev/null' "$0"`, "leak_exits", exitFound, "--fail-on definite"},
	} {
		program, err := filepath.Abs(testProgram(c.program))
		if err != nil {
			t.Fatal(err)
		}
		cmd := memtraceCommand(t, "run", "--fail-on", "definite", "--", "sh", "-c", c.script, program)
		var said bytes.Buffer
		cmd.Stderr = &said
		_ = cmd.Run() // its exit code is what matters
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.why) || c.code == 1 && !strings.Contains(said.String(), "the check could not be made: check") {
			t.Errorf("%s of %s: exit code %d, want %d and %q:\n%s", c.script, c.program, code, c.code, c.why, said.String())
		}
	}
}

// TestFailOnUntracedProgramWhosePIDComesAgain: a child of which nothing could be seen is
// no pass either where a later child got its PID, and was checked. Before that one more
// child ends: memtrace looks at it once it has read the end of the first.
func TestFailOnUntracedProgramWhosePIDComesAgain(t *testing.T) {
	const taken = 9
	const script = `"$0" run > /dev/null & pid=$!; wait $pid; (:)
		for i in $(seq 50); do
			echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid; (:) & wait $!
			if [ $! = $pid ]; then exit 0; fi
		done
		exit 9`
	program, err := filepath.Abs(testProgram("every_function_static_stripped"))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	code := taken
	for range 10 { // another process may have taken the PID, and keep it: then a first child is needed that has another
		cmd := memtraceCommand(t, "run", "--fail-on", "definite", "--", "sh", "-c", script, program)
		said.Reset()
		cmd.Stderr = &said
		_ = cmd.Run() // its exit code is what matters
		if code = cmd.ProcessState.ExitCode(); code != taken {
			break
		}
		t.Log("another process has the PID of the first child")
	}
	why := regexp.MustCompile(`check the child process \d+ for leaks: .*a static program without symbols`)
	if code != 1 || !why.Match(said.Bytes()) {
		t.Errorf("exit code %d, want 1 by %s:\n%s", code, why, said.String())
	}
}

// TestFailOnLeakAfterManyProcesses: a leak in a process after more than are listed one
// by one fails a job as any other does.
func TestFailOnLeakAfterManyProcesses(t *testing.T) {
	t.Parallel()
	const script = `i=0; while [ $i -lt 1030 ]; do (:); i=$((i+1)); done; "$0" run return > /dev/null; true`
	file := filepath.Join(t.TempDir(), "report")
	_, code := runLeaks(t, "run", "--fail-on", "definite", "--format", "json", "--report", file, "--", "sh", "-c", script, testProgram("leak_exits"))
	r := readReport(t, file)
	if children := r.Processes[len(r.Processes)-1].Children; code != exitFound || children == 0 {
		t.Errorf("exit code %d, leaks %+v, %d children are summed up; want %d, and some", code, r.Leaks, children, exitFound)
	}
	for _, l := range r.Leaks {
		if r.Site(l.Site) == nil {
			t.Errorf("%+v has no site", l)
		}
	}
}

// TestNothingIsLostByMoving attaches to a program that moves pointers about
// while it is scanned.
func TestNothingIsLostByMoving(t *testing.T) {
	t.Parallel()
	program := exec.Command(testProgram("leak_moves"), "attach")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Process.Kill(); _ = program.Wait() }()
	cmd := memtraceCommand(t, "-p", strconv.Itoa(program.Process.Pid), "-i", "100ms", "--leaks", "--format", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	reports := json.NewDecoder(out)
	next := func() (r report.Report) {
		if err := reports.Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := next() // the probes are in place: go
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	const blocks = 300_000 // those of both threads, before they move any
	for r.Processes[0].Heap.LiveCount < blocks && !r.Final {
		r = next()
	}
	for moved := r.Events.Free + 50_000; r.Events.Free < moved && !r.Final; { // each sixteenth step replaces a block
		r = next()
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for !r.Final {
		r = next()
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("memtrace: %v", err)
	}
	if live := r.Processes[0].Heap.LiveCount; live < blocks {
		t.Errorf("%d live blocks were traced, want those of both threads", live)
	}
	for _, l := range r.Leaks {
		if l.Kind != "growing" && l.Kind != "old" {
			t.Errorf("%+v", l)
		}
	}
}

// TestBlocksBeingHandedOutAreNoLeaks ends a program, which loses nothing, while one
// of its threads is in the midst of malloc, as it is in two of five runs. So short
// a program fills no ring, however late memtrace is.
func TestBlocksBeingHandedOutAreNoLeaks(t *testing.T) {
	t.Parallel()
	// tcmalloc loses a block of its own, its first MallocExtension.
	for name, runs := range map[string]int{"": 12, jemallocLib: 3, mimallocLib: 3} {
		t.Run("preload "+name, func(t *testing.T) {
			t.Parallel()
			library := ""
			if name != "" {
				library = privateLibrary(t, name)
			}
			for n := range runs {
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					t.Parallel()
					endInMalloc(t, library)
				})
			}
		})
	}
}

func endInMalloc(t *testing.T, library string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	cmd := memtraceCommand(t, "run", "--fail-on", "definite", "--format", "json", "--report", file, "--", testProgram("handed_out"), "run", "1", "100")
	cmd.Env = append(cmd.Env, "LD_PRELOAD="+library)
	_, code := finishLeaks(t, cmd)
	r := readReport(t, file)
	for _, l := range r.Leaks {
		t.Errorf("%s: %d blocks of %d bytes: %s", l.Kind, l.Count, l.Bytes, l.Why)
	}
	if code != 0 || r.Events.Alloc < 1000 {
		t.Errorf("exit code %d, %d allocations, lost %+v", code, r.Events.Alloc, r.Events.LostBy)
	}
}
