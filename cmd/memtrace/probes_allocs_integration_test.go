//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// withoutFrees are the flags of a trace without a probe on free.
var withoutFrees = []string{"--probes", "allocs"}

// checkWalked checks that no free was seen, that the heaps were looked through, and that nothing is left in doubt.
func checkWalked(t *testing.T, r *report.Report) {
	t.Helper()
	if r.Events.Free != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 {
		t.Errorf("%d frees seen, %d unmatched, %d overwritten", r.Events.Free, r.Events.UnmatchedFree, r.Events.Overwritten)
	}
	for _, p := range r.Processes {
		f := p.FreeWalk
		if f == nil || p.Heap.AllocCount > 0 && f.Walks == 0 {
			t.Errorf("process %d was not looked through: %+v", p.PID, f)
			continue
		}
		if count, bytes := f.Doubtful(); count != 0 || bytes != 0 {
			t.Errorf("process %d: %d blocks are in doubt: %+v", p.PID, count, f)
		}
	}
}

// checkLive compares what lives with what the program says.
func (c *child) checkLive(t *testing.T, r *report.Report) {
	t.Helper()
	c.checkSites(t, r)
	var frees, gone uint64
	for _, s := range r.Sites {
		frees, gone = frees+s.FreeCount, gone+s.AllocCount-s.LiveCount
	}
	if frees != gone {
		t.Errorf("%d blocks freed, %d are gone", frees, gone)
	}
}

// TestProbesAllocsOfContainers: 255,157 blocks of a C++ program's containers.
func TestProbesAllocsOfContainers(t *testing.T) {
	t.Parallel()
	c, r := runWith(t, withoutFrees, filepath.Join("..", "..", "build", "testdata", "cxx_containers"))
	checkReport(t, &r)
	checkWalked(t, &r)
	var live, liveBytes uint64
	for _, s := range r.Sites {
		if slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return strings.HasSuffix(f.Module, "/cxx_containers") }) {
			live, liveBytes = live+s.LiveCount, liveBytes+s.LiveBytes
		}
	}
	if live != c.total(t, "live_count") || liveBytes != c.total(t, "live_bytes") {
		t.Errorf("%d bytes in %d blocks, the program has %d in %d", liveBytes, live, c.total(t, "live_bytes"), c.total(t, "live_count"))
	}
}

// TestProbesAllocsOfARun: what lives at a program's end is what it says, without a probe on free.
func TestProbesAllocsOfARun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"every_function", "every_function_static", "two_threads", "cross_thread_free", "temporary"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, withoutFrees, filepath.Join("..", "..", "build", "testdata", name))
			checkReport(t, &r)
			checkWalked(t, &r)
			c.checkLive(t, &r)
		})
	}
}

// TestProbesAllocsOfAnAttach: so is what lives while it waits.
func TestProbesAllocsOfAnAttach(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"every_function", "two_threads", "cross_thread_free", "temporary"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := program(t, name)
			tr := attach(t, c.cmd.Process.Pid, withoutFrees...)
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			if err := c.end(); err != nil {
				t.Error(err)
			}
			checkReport(t, &r)
			checkWalked(t, &r)
			c.checkLive(t, &r)
		})
	}
}

// TestProbesAllocsOfChildren: each child has its own heap, from its first instruction and through execs.
func TestProbesAllocsOfChildren(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fork", "vfork", "exec"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, withoutFrees, filepath.Join("..", "..", "build", "testdata", "births"), how, "5", "2")
			checkReport(t, &r)
			checkWalked(t, &r)
			c.checkForks(t, &r)
		})
	}
	t.Run("alive", func(t *testing.T) {
		t.Parallel()
		c := program(t, "fork_exec", "2000")
		tr := attach(t, c.cmd.Process.Pid, withoutFrees...)
		answers, err := c.proceedAll()
		if err != nil {
			t.Fatal(err)
		}
		r := tr.interrupt()
		if err := c.end(); err != nil {
			t.Error(err)
		}
		live := make(map[int]uint64)
		for _, p := range r.Processes {
			live[p.PID] = p.Heap.LiveBytes
		}
		for _, a := range answers {
			if got := live[a.PID]; (a.How == "fork" || a.Final) && got != a.Total.LiveBytes {
				t.Errorf("process %d (%s): %d live bytes, want %d", a.PID, a.How, got, a.Total.LiveBytes)
			}
		}
	})
}

// TestProbesAllocsUnderLoad: four threads free each other's blocks as fast as they can. Every Report's live blocks are those of
// the program, but for what it says to be in doubt; once the threads have ended, exactly.
func TestProbesAllocsUnderLoad(t *testing.T) {
	t.Parallel()
	c := program(t, "passed_around")
	tr := attach(t, c.cmd.Process.Pid, withoutFrees...)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	const threads = 4
	blocks, bytes, most := c.total(t, "live_count"), c.total(t, "live_bytes"), uint64(c.answer["most_bytes"].(float64))
	filled := tr.report()
	for filled.Processes[0].Heap.LiveCount < blocks { // it is from before all were filled
		filled = tr.report()
	}
	running := 0
	for walked := filled.WindowNS; running < 3; {
		r := tr.report()
		if r.Final {
			t.Fatal("the trace ended")
		}
		p := &r.Processes[0]
		if p.FreeWalk == nil || p.FreeWalk.WalkedNS <= walked { // from before all were filled, or the same look again
			continue
		}
		walked = p.FreeWalk.WalkedNS
		running++
		inDoubt, bytesInDoubt := p.FreeWalk.Doubtful()
		if h := p.Heap; h.LiveCount < blocks || h.LiveCount-inDoubt > blocks+threads {
			t.Errorf("%d blocks, %d of them in doubt, the program has %d to %d: %+v", h.LiveCount, inDoubt, blocks, blocks+threads, p.FreeWalk)
		}
		if h := p.Heap; h.LiveBytes < bytes || h.LiveBytes-bytesInDoubt > bytes+threads*most {
			t.Errorf("%d bytes, %d of them in doubt, the program has %d: %+v", h.LiveBytes, bytesInDoubt, bytes, p.FreeWalk)
		}
	}
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	checkReport(t, &r)
	checkWalked(t, &r)
	var live, liveBytes uint64
	for _, s := range r.Sites {
		if s.Function == "pass_around" {
			live, liveBytes = live+s.LiveCount, liveBytes+s.LiveBytes
		}
	}
	if live != blocks || liveBytes != bytes {
		t.Errorf("%d bytes in %d blocks at the end, the program has %d in %d", liveBytes, live, bytes, blocks)
	}
}

// TestProbesAllocsKeepsFreesElsewhere: another allocator's heap can't be read, so its frees have probes, which is said once.
func TestProbesAllocsKeepsFreesElsewhere(t *testing.T) {
	t.Parallel()
	c, r := runAnswering(t, []string{"LD_PRELOAD=" + privateLibrary(t, jemallocLib)}, withoutFrees, []string{testProgram("every_function"), "run", "no-pvalloc"})
	checkReport(t, &r)
	c.checkSites(t, &r)
	if p := r.Processes[0]; p.FreeWalk != nil || r.Events.Free == 0 {
		t.Errorf("%d frees seen: %+v", r.Events.Free, p.FreeWalk)
	}
	said := 0
	for _, w := range r.Warnings {
		if strings.Contains(w, "has probes on free in spite of --probes allocs") && strings.Contains(w, "jemalloc") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it is said %d times that the heap can't be read: %q", said, r.Warnings)
	}
}

// TestProbesAllocsFindsWhatTheCorpusLost: the verdicts of a check are those of a full trace.
func TestProbesAllocsFindsWhatTheCorpusLost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report")
	out, code := runLeaks(t, "run", "--leaks", "--probes", "allocs", "--format", "json", "--report", file, "--", testProgram("leak_corpus"), "x")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	r := readReport(t, file)
	compareSums(t, r, corpusSums(t, out, ""))
	checkWalked(t, r)
}

// TestProbesAllocsPlaysBack: a recording gives the Report that the trace printed, and an analyzer without processes the same.
func TestProbesAllocsPlaysBack(t *testing.T) {
	t.Parallel()
	cmd := memtraceCommand(t, "run", "--report", filepath.Join(t.TempDir(), "report"), "--probes", "allocs", "--leaks", "--", testProgram("births"), "run", "fork", "5", "2")
	check := playing(t, cmd)
	if out, code := finishLeaks(t, cmd); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	check("input.FreeWalk", "input.Verdicts")

	dir := t.TempDir()
	file, shown := filepath.Join(dir, "r.memtrace"), filepath.Join(dir, "shown")
	if out, err := memtraceCommand(t, "run", "-o", file, "--report", shown, "--probes", "allocs", "--", testProgram("cross_thread_free"), "run").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again, err := memtraceCommand(t, "report", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(shown)
	if err != nil {
		t.Fatal(err)
	}
	_, made, _ := strings.Cut(string(again), "\n  ") // by whom and when, which the trace does not print
	if _, made, _ = strings.Cut(made, "\n"); strings.TrimSpace(made) != strings.TrimSpace(string(text)) || !strings.Contains(string(text), "no probe (--probes allocs)") {
		t.Errorf("the trace printed\n%s\nits recording\n%s", text, again)
	}
}

// TestProbesAllocsOfAKilledProgram: nobody looks at its end, so what it had since the last look is in doubt.
func TestProbesAllocsOfAKilledProgram(t *testing.T) {
	t.Parallel()
	c, err := startCommand(t, exec.Command(testProgram("passed_around"), "attach"))
	if err != nil {
		t.Fatal(err)
	}
	tr := attach(t, c.cmd.Process.Pid, append([]string{"--hold=false"}, withoutFrees...)...)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	blocks := c.total(t, "live_count")
	for tr.report().Processes[0].Heap.LiveCount < blocks {
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r := tr.end()
	_ = c.cmd.Wait()
	p := r.Processes[0]
	inDoubt, _ := p.FreeWalk.Doubtful()
	if !p.Exited || p.Heap.LiveCount < blocks || p.Heap.LiveCount-inDoubt > blocks+4 {
		t.Errorf("exited %v with %d blocks, %d in doubt, the program had %d", p.Exited, p.Heap.LiveCount, inDoubt, blocks)
	}
}
