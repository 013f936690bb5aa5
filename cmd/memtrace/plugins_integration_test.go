//go:build integration

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// pluginErrors says where the sites in libraries that testdata/programs/plugins.c loads are not
// whole: each process has one for each of them, with the whole stack and all names.
func pluginErrors(r *report.Report) (problems []string) {
	seen := map[string]bool{}
	for i := range r.Sites {
		s := &r.Sites[i]
		name, ours := strings.CutSuffix(s.Function, "_take")
		if !ours || s.AllocCount == 0 { // else a child's copies of its parent's blocks
			if i := slices.IndexFunc(s.Stack, func(f *report.Frame) bool { return f.Module == "" }); i >= 0 {
				problems = append(problems, fmt.Sprintf("a stack goes through no file: %+v", *s.Stack[i]))
			}
			continue
		}
		key := fmt.Sprint(s.PID, s.Function)
		if seen[key] {
			problems = append(problems, s.Function+" has two sites")
		}
		seen[key] = true
		var stack []string
		for _, f := range s.Stack {
			stack = append(stack, f.Function)
		}
		file := filepath.Base(s.Stack[0].Module)
		whole := slices.Equal(stack[:min(2, len(stack))], []string{s.Function, "use"}) && slices.Contains(stack, "main") && !s.Truncated
		if !whole || file != "libplugin_"+name+".so" {
			problems = append(problems, fmt.Sprintf("%s: the stack is %q, truncated %v, in %s", s.Function, stack, s.Truncated, file))
		}
	}
	return append(problems, r.Warnings...)
}

// What a library allocates has names, a whole stack and its allocator's probes from the first call
// on, however short the library's life, and whatever else is mapped where it was.
func TestLibrariesThatAreLoadedLater(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"brief", "command", "children", "own"} {
		t.Run("run/"+how, func(t *testing.T) {
			t.Parallel()
			c, r := runAnswering(t, nil, nil, []string{testProgram("plugins"), "run", how})
			for _, problem := range slices.Concat(c.siteErrors(t, &r), pluginErrors(&r), lossErrors(&r)) {
				t.Error(problem)
			}
		})
		t.Run("attach/"+how, func(t *testing.T) {
			t.Parallel()
			c := program(t, "plugins", how)
			tr := attach(t, c.cmd.Process.Pid)
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			for _, problem := range slices.Concat(c.siteErrors(t, &r), pluginErrors(&r), lossErrors(&r)) {
				t.Error(problem)
			}
		})
	}
}

// Where a process is not held, what an allocator serves before its probes are there is not
// seen, and never without a word.
func TestAllocatorThatRunsBeforeItsProbesIsSaid(t *testing.T) {
	t.Parallel()
	c := program(t, "plugins", "own")
	tr := attach(t, c.cmd.Process.Pid, "--hold=false")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	said := func(text string) bool { return strings.Contains(text, "libplugin_own.so before its probes were there") }
	for whole := false; !whole; {
		r := tr.report()
		whole = len(c.siteErrors(t, &r)) == 0 || slices.ContainsFunc(r.Warnings, said)
	}
	tr.interrupt()
}

// A leak in a library that is loaded later is one leak with one fingerprint, each time.
func TestLeakInALibraryIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	prints := make(chan string, 6)
	t.Run("runs", func(t *testing.T) {
		for i := range cap(prints) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				_, r := runAnswering(t, nil, []string{"--leaks"}, []string{testProgram("plugins"), "run", "lose"})
				verdicts := slices.DeleteFunc(slices.Clone(r.Leaks), func(l report.Leak) bool { return l.Kind != "definite" })
				if len(verdicts) != 1 || verdicts[0].Count != 5 || verdicts[0].Bytes != 5000 {
					t.Fatalf("leaks %+v, want one of 5 blocks, 5000 bytes", r.Leaks)
				}
				prints <- verdicts[0].Fingerprint
			})
		}
	})
	close(prints)
	first := ""
	for p := range prints {
		if first != "" && p != first {
			t.Errorf("fingerprints %s and %s", first, p)
		}
		first = p
	}
}
