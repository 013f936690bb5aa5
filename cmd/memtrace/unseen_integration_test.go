//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Entry points that known allocators have beside malloc are counted as the program counts them.
func TestFurtherEntryPoints(t *testing.T) {
	t.Parallel()
	c, r := runWith(t, nil, testProgram("entries"))
	c.checkSites(t, &r)
	if r.Events.UnmatchedFree != 0 || r.Events.Lost != 0 || len(r.Warnings) != 0 {
		t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
	}
}

// Of an entry point that nobody knows the blocks are not seen, their frees are. That is said, and how
// it is added; added, all of it is seen.
func TestUnknownEntryPoint(t *testing.T) {
	t.Parallel()
	const advice = "--alloc-fn 'libentries.so!region_alloc:size="
	said := func(r *report.Report) bool {
		return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, advice) })
	}
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		c, r := runWith(t, nil, testProgram("entries"), "400")
		c.checkSites(t, &r)
		if frees := uint64(c.answer["unseen_frees"].(float64)); r.Events.UnmatchedFree != frees || !said(&r) ||
			!strings.Contains(strings.Join(r.Warnings, "\n"), fmt.Sprintf("%d frees were of blocks whose allocation was not seen", frees)) {
			t.Errorf("%d of %d frees matched nothing, warnings %q", r.Events.UnmatchedFree, frees, r.Warnings)
		}
	})
	t.Run("added", func(t *testing.T) {
		t.Parallel()
		c, r := runWith(t, []string{"--alloc-fn", "libentries.so!region_alloc:size=1"}, testProgram("entries"), "400")
		var live uint64
		for _, s := range r.Sites {
			if s.Function == "main" {
				live += s.LiveCount
			}
		}
		if want := uint64(c.answer["unseen_live"].(float64)); r.Events.UnmatchedFree != 0 || live != want || len(r.Warnings) != 0 {
			t.Errorf("%d blocks live of main, want %d; events %+v, warnings %q", live, want, r.Events, r.Warnings)
		}
	})
	t.Run("attach", func(t *testing.T) {
		t.Parallel()
		c, err := startCommand(t, exec.Command(testProgram("entries"), "attach", "400"))
		if err != nil {
			t.Fatal(err)
		}
		tr := attach(t, c.cmd.Process.Pid)
		if err := c.proceed(); err != nil {
			t.Fatal(err)
		}
		if r := tr.interrupt(); !said(&r) {
			t.Errorf("warnings %q", r.Warnings)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

// A Go program with C code has two heaps, of which C's is traced. What Go's grew by is no block, and that is said.
func TestGoProgramWithC(t *testing.T) {
	t.Parallel()
	c := spawn(t, exec.Command(testProgram("mixed_heap")))
	c.lineWith("ready")
	m := startTracing(t, []int{c.pid()}, "-d", "600s", "--top", "0")
	c.say("grow")
	var answer struct {
		Growth float64 `json:"heap_growth"`
	}
	if err := json.Unmarshal([]byte(c.lineWith(`"final":true`)), &answer); err != nil {
		t.Fatal(err)
	}
	r := m.interrupt()
	grown := saidToGrow(t, r, "where Go's lies, grew by ", "docs/languages.md")
	if want := answer.Growth / (1 << 20); grown < 0.95*want || grown > 1.3*want {
		t.Errorf("it is said that %g MiB came, Go's heap grew by %.1f MiB; warnings %q", grown, want, r.Warnings)
	}
	checkCallers(t, r, map[string]uint64{"main.keepFirst": 10, "main.keepSecond": 5})
	if processOf(t, r, c.pid()).Unprobed {
		t.Error("the process is said to have no allocator")
	}
	out, err := memtraceCommand(t, "leaks", "-p", strconv.Itoa(c.pid())).CombinedOutput()
	if want := fmt.Sprintf("its C heap alone was checked: what Go's own heap holds, and what of it grows, memtrace -p %d shows", c.pid()); err != nil || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want) {
		t.Errorf("leaks: %v: %s", err, out)
	}
	c.say("end")
	c.end()
}

// Memory that comes without any call that is seen is said to be nobody's.
func TestUnexplainedGrowth(t *testing.T) {
	t.Parallel()
	for mib, said := range map[string]bool{"64": true, "8": false} {
		_, r := runWith(t, nil, testProgram("entries"), "0", mib)
		if !said {
			if len(r.Warnings) != 0 {
				t.Errorf("%s MiB: warnings %q", mib, r.Warnings)
			}
			continue
		}
		if grown := saidToGrow(t, &r, "was not seen being mapped, grew by ", "--alloc-fn"); grown < 64 || grown > 65 {
			t.Errorf("64 MiB came, it is said to be %g; warnings %q", grown, r.Warnings)
		}
	}
}

// saidToGrow is how many MiB came, by the warning with these texts.
func saidToGrow(t *testing.T, r *report.Report, before, with string) (grown float64) {
	t.Helper()
	for _, w := range r.Warnings {
		if _, text, ok := strings.Cut(w, before); ok && strings.Contains(w, with) {
			if _, err := fmt.Sscanf(text, "%f MiB", &grown); err != nil {
				t.Errorf("%q: %v", w, err)
			}
		}
	}
	return grown
}

// checkCallers compares the blocks of C code by the Go function that called it: the stacks lead
// from the thread's stack to the goroutine's, and to its bottom.
func checkCallers(t *testing.T, r *report.Report, want map[string]uint64) {
	t.Helper()
	got := make(map[string]uint64)
	for _, s := range r.Sites {
		if s.Function != "keep" {
			continue
		}
		for _, f := range s.Stack {
			if want[f.Function] != 0 {
				got[f.Function] += s.LiveCount
			}
		}
		if last := s.Stack[len(s.Stack)-1].Function; !strings.HasPrefix(last, "runtime.goexit") || s.LiveBytes != 1000*s.LiveCount {
			t.Errorf("%d blocks of %d bytes, by a stack that ends in %s", s.LiveCount, s.LiveBytes, last)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("blocks by Go's functions are %v, want %v", got, want)
	}
}
