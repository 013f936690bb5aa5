//go:build integration && services

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/probe"
	"github.com/memtrace/memtrace/tracer/python"
)

// pythonStacks is a program that says at which Python stacks it allocated its blocks, and how often.
const pythonStacks = "../../testdata/python/stacks.py"

// pythonSize is the size of the blocks that it tells of, in bytes.
const pythonSize = 200_000

// debianPython is the distribution's own.
func debianPython(t *testing.T) string {
	const path = "/usr/bin/python3"
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; .ci/setup test installs all that the tests need", err)
	}
	return path
}

// pythons are the distribution's Python, and those that pyenv has installed, by version ("3.11.2").
func pythons(t *testing.T) map[string]string {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	others, err := filepath.Glob(filepath.Join(home, ".pyenv/versions/3.*/bin/python3"))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, path := range append([]string{debianPython(t)}, others...) {
		text, err := exec.Command(path, "-c", "import platform; print(platform.python_version())").Output()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		version := strings.TrimSpace(string(text))
		if knownPython(version) {
			out[version] = path
		}
	}
	return out
}

// hasOwnLayout chooses a version of each way in which frames are linked: what costs more is done with these.
func hasOwnLayout(version string) bool {
	return strings.HasPrefix(version, "3.8.") || strings.HasPrefix(version, "3.11.2") || strings.HasPrefix(version, "3.13.")
}

// knownPython reports whether memtrace claims to know a version.
func knownPython(version string) bool {
	var minor int
	_, err := fmt.Sscanf(version, "3.%d.", &minor)
	return err == nil && minor >= 8 && minor <= 13
}

// pythonAnswer is what the program printed: how often each stack allocated. A stack is its frames, as text.
func pythonAnswer(t *testing.T, line []byte) map[string]uint64 {
	t.Helper()
	var said [][2]json.RawMessage
	if err := json.Unmarshal(line, &said); err != nil || len(said) == 0 {
		t.Fatalf("the program said %.200q: %v", line, err)
	}
	out := make(map[string]uint64)
	for _, one := range said {
		var n uint64
		var frames [][3]any
		if err := json.Unmarshal(one[0], &n); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(one[1], &frames); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, f := range frames {
			fmt.Fprintf(&text, "%v at %v:%v\n", f[0], f[1], f[2])
		}
		out[text.String()] += n
	}
	return out
}

// pythonText is the Python frames of a stack, as text.
func pythonText(stack []*report.Frame) string {
	var text strings.Builder
	for _, f := range stack {
		if f.Language == report.LanguagePython {
			fmt.Fprintf(&text, "%s at %s:%d\n", f.Function, f.File, f.Line)
		}
	}
	return text.String()
}

// pythonSites is how often each Python stack allocated blocks of the size, by a Report.
func pythonSites(r *report.Report) map[string]uint64 {
	out := make(map[string]uint64)
	for _, s := range r.Sites {
		for _, bucket := range s.SizeHistogram {
			if bucket[0] >= pythonSize && bucket[0] < pythonSize*5/4 {
				out[pythonText(s.Stack)] += bucket[1]
			}
		}
	}
	return out
}

// comparePython holds the Report's stacks against those that the program had. Other code of the same sizes, as json's, is
// not in the program's own file.
func comparePython(t *testing.T, want map[string]uint64, r *report.Report) {
	t.Helper()
	if r.Events.Lost != 0 || len(r.Warnings) > 0 {
		t.Errorf("%d events lost, warnings %q", r.Events.Lost, r.Warnings)
	}
	got := pythonSites(r)
	var total uint64
	for stack, n := range want {
		if total += n; got[stack] != n {
			t.Errorf("%d blocks, want %d, of\n%s", got[stack], n, stack)
		}
	}
	for stack, n := range got {
		first, _, _ := strings.Cut(stack, "\n")
		if _, known := want[stack]; !known && (first == "" || strings.Contains(first, "stacks.py:") || strings.Contains(first, "<made")) {
			t.Errorf("%d blocks of a stack that the program never had:\n%s", n, stack)
		}
	}
	t.Logf("%d blocks at %d stacks", total, len(want))
}

// tracePython traces a program from its first instruction; its answer, and the final Report. The program stays until it
// reads a line, which it gets after that Report: it has all events, and names are those of a process that lives.
func tracePython(t *testing.T, flags []string, argv ...string) ([]byte, *report.Report) {
	t.Helper()
	c := spawn(t, exec.Command("/bin/sh", append([]string{"-c", `echo ready; read -r line; exec "$@"`, "sh"}, argv...)...))
	c.lineWith("ready")
	m := startTracing(t, []int{c.pid()}, append([]string{"--top", "0", "--at-exit", "off"}, flags...)...)
	c.say("")
	answer := pythonSaid(c.lineWith("said: "))
	r := m.interrupt()
	c.say("")
	c.end()
	return answer, r
}

// pythonSaid is what a program answers in a line.
func pythonSaid(line string) []byte {
	_, answer, _ := strings.Cut(line, "said: ")
	return []byte(answer)
}

// runPython runs a program under memtrace; its answer, and the Report. It ends at once: what it had may be gone before its name is read.
func runPython(t *testing.T, flags []string, argv ...string) ([]byte, *report.Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	flags = append([]string{"run", "--format", "json", "--report", file, "--at-exit", "off"}, flags...)
	out, err := memtraceCommand(t, append(append(flags, "--"), argv...)...).Output()
	if err != nil {
		t.Fatalf("%v: %.300s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return pythonSaid(string(out)), parseReport(t, string(text))
}

// Every stack of a Python program is the one that the interpreter itself had at the allocation: through functions,
// generators, exceptions, sort keys, context managers, code that is made at run time, coroutines, and in threads, with the GIL and
// without. Of each version that is here.
func TestPythonStacks(t *testing.T) {
	t.Parallel()
	for version, path := range pythons(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			out, r := tracePython(t, nil, path, pythonStacks, "15")
			comparePython(t, pythonAnswer(t, out), r)
			for _, s := range r.Sites {
				f, i := report.Interpreted(s.Stack)
				if f != nil && (s.Function != f.Function || s.FunctionFrame != i) {
					t.Errorf("FUNCTION is %s, frame %d, want %s, frame %d", s.Function, s.FunctionFrame, f.Function, i)
				}
				if i := slices.IndexFunc(s.Stack, func(f *report.Frame) bool { return strings.HasPrefix(f.Function, "_PyEval_") }); f != nil && i >= 0 {
					t.Errorf("the interpreter's own frames are not folded: %s", s.Stack[i].Function)
				}
			}
		})
	}
}

// So it is of a process that has run before, and with the interpreter's own frames: each run of Python frames
// stands right inside of an evaluation loop.
func TestPythonStacksAttached(t *testing.T) {
	t.Parallel()
	for version, path := range pythons(t) {
		if !hasOwnLayout(version) {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := spawn(t, exec.Command(path, pythonStacks, "attach", "10"))
			c.lineWith("ready")
			m := startTracing(t, []int{c.pid()}, "--native", "--top", "0")
			c.say("")
			answer := pythonSaid(c.lineWith("said: "))
			r := m.interrupt() // it has all events, and the program is still there to be read
			comparePython(t, pythonAnswer(t, answer), r)
			for _, s := range r.Sites {
				checkRuns(t, s.Stack)
			}
			c.say("")
		})
	}
}

// checkRuns checks that what follows the last of a run of Python frames is the evaluation loop, where the native stack goes as far.
func checkRuns(t *testing.T, stack []*report.Frame) {
	t.Helper()
	stack = slices.DeleteFunc(slices.Clone(stack), func(f *report.Frame) bool { return f.Inlined }) // what the loop has of others
	for i, f := range stack[:max(len(stack)-1, 0)] {
		next := stack[i+1]
		if f.Language == report.LanguagePython && next.Language == "" && !strings.HasPrefix(next.Function, "_PyEval_EvalFrameDefault") {
			t.Errorf("%s has %s outside of it", f.Function, next.Function)
		}
	}
}

// A stack that is deeper than what is recorded says so, and its inner frames are right.
func TestPythonRecursion(t *testing.T) {
	t.Parallel()
	const deep = `import sys
sys.setrecursionlimit(5000)
def f(n):
    return f(n - 1) if n else bytes(3_000_000)
f(1000)
print("said: all", flush=True)
sys.stdin.readline()
`
	for version, path := range pythons(t) {
		if !hasOwnLayout(version) {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			_, r := tracePython(t, nil, path, "-c", deep)
			i := slices.IndexFunc(r.Sites, func(s report.Site) bool { return s.Function == "f" && s.AllocBytes > 3_000_000 })
			if i < 0 {
				t.Fatal("no site of f")
			}
			s := r.Sites[i]
			n := strings.Count(pythonText(s.Stack), "f at <string>:4\n")
			if !s.Truncated || n < 120 || n > 128 || len(r.Warnings) > 0 {
				t.Errorf("truncated %v, %d frames of f, warnings %q", s.Truncated, n, r.Warnings)
			}
		})
	}
}

// Code that is freed before it could be read is unknown. It is never called by another's name where code objects have
// numbers (from 3.12 on); before, code that is made at run time may be called like that which was in its place.
func TestPythonCodeThatIsFreed(t *testing.T) {
	t.Parallel()
	for version, path := range pythons(t) {
		if !hasOwnLayout(version) {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			out, r := runPython(t, nil, path, pythonStacks, "forget", "10")
			want := pythonAnswer(t, out)
			for stack := range pythonSites(r) {
				first, _, _ := strings.Cut(stack, "\n")
				if !strings.Contains(first, "stacks.py:") || want[stack] != 0 {
					continue
				}
				if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(had string) bool { return isAlike(stack, had, version) }) {
					t.Errorf("a stack that the program never had:\n%s", stack)
				}
			}
		})
	}
}

// isAlike reports whether two stacks are the same but for frames that are unknown in the first one, or, to 3.11, of code that
// is made at run time.
func isAlike(got, want, version string) bool {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(a) != len(b) {
		return false
	}
	numbered := strings.HasPrefix(version, "3.12.") || strings.HasPrefix(version, "3.13.")
	for i := range a {
		made := strings.Contains(b[i], " at <made at ")
		if a[i] != b[i] && !(made && strings.HasPrefix(a[i], python.Unknown)) && (numbered || !made || !strings.Contains(a[i], " at <made at ")) {
			return false
		}
	}
	return true
}

// A child has its parent's interpreter until it executes another one, or a program that is none.
func TestPythonForksAndExecutes(t *testing.T) {
	t.Parallel()
	for version, other := range pythons(t) {
		if !hasOwnLayout(version) {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			program := `
import os, sys
def in_parent():
    return bytes(1_500_000)
def in_child():
    return bytes(1_600_000)
print("ready", flush=True)
os.read(0, 1)
kept = in_parent()
if os.fork() == 0:
    kept = in_child()
    os.read(0, 1)
    os.execv(sys.argv[1], [sys.argv[1], "-c", "import os\ndef after_exec():\n    return bytes(1_700_000)\nkept = after_exec()\nos.read(0, 1)"])
os.wait()
`
			c := spawn(t, exec.Command(debianPython(t), "-c", program, other))
			c.lineWith("ready")
			m := startTracing(t, []int{c.pid()}, "--top", "0")
			steps := []struct {
				function string
				size     uint64
			}{{"in_parent", 1_500_000}, {"in_child", 1_600_000}, {"after_exec", 1_700_000}}
			has := func(r *report.Report, function string, size uint64) bool {
				return slices.ContainsFunc(r.Sites, func(s report.Site) bool {
					return s.Function == function && s.AllocBytes >= size && s.AllocBytes < size+100
				})
			}
			// Each goes on once its names were read: they are those of a process that lives.
			for _, step := range steps {
				if step.function != "in_child" { // which follows the parent's
					c.say("")
				}
				eventually(t, step.function+" has a site of its bytes", func() bool {
					return has(m.report(), step.function, step.size)
				})
			}
			c.say("")
			c.end()
			r := m.finish()
			if len(r.Warnings) > 0 {
				t.Errorf("%q", r.Warnings)
			}
			for _, step := range steps {
				if !has(r, step.function, step.size) {
					t.Errorf("after its end %s has no site", step.function)
				}
			}
		})
	}
}

// A recording has the same stacks as the trace, and can be asked for Python functions.
func TestPythonRecordings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "python.memtrace")
	out, r := tracePython(t, []string{"-o", file}, debianPython(t), pythonStacks, "5")
	text, err := memtraceCommand(t, "report", file, "--format", "json", "--top", "0").Output()
	if err != nil {
		t.Fatal(err)
	}
	again := parseReport(t, string(text))
	comparePython(t, pythonAnswer(t, out), again)
	if len(again.Sites) != len(r.Sites) {
		t.Errorf("%d sites, want %d", len(again.Sites), len(r.Sites))
	}
	text, err = memtraceCommand(t, "query", file, `function ~ "many_lines"`).Output()
	if err != nil || !strings.Contains(string(text), "many_lines") {
		t.Errorf("%v: %s", err, text)
	}
	folded := filepath.Join(t.TempDir(), "folded")
	if out, err := memtraceCommand(t, "export", file, "--format", "folded", "--kind", "allocated", "-o", folded).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err = os.ReadFile(folded); err != nil || !strings.Contains(string(text), ";step;many_lines;") {
		t.Errorf("no step;many_lines in the folded stacks: %v", err)
	}
}

// templates calls copies of eight functions in turn, each of which is freed before the next one is made, and so mostly lies where that
// will. What names they have lives on. It prints how often it called each.
const templates = `
import json, sys, types
def make(k):
    space = {}
    exec(compile("\n" * k + f"def made_{k}():\n    return bytes(200_000 - 33)\n", f"<template {k}>", "exec"), space)
    return space[f"made_{k}"]
kept = [make(k) for k in range(8)]
counts = [0] * 8
for i in range(800):
    k = i * 5 % 8
    f = types.FunctionType(kept[k].__code__.replace(), {"bytes": bytes}) if i >= 8 else kept[k]
    f()
    del f
    counts[k] += 1
print("said:", json.dumps(counts), flush=True)
sys.stdin.readline()
`

// A code object is never taken for an earlier one at its address: of no function there are more blocks than it allocated. Those of
// code that was freed before it could be read are of no function.
func TestPythonCodeAtOneAddress(t *testing.T) {
	t.Parallel()
	for version, path := range pythons(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			out, r := tracePython(t, nil, path, "-c", templates)
			var want []uint64
			if err := json.Unmarshal(out, &want); err != nil {
				t.Fatalf("the program said %.200q: %v", out, err)
			}
			got := make(map[string]uint64)
			for stack, n := range pythonSites(r) {
				function, _, _ := strings.Cut(stack, " at ")
				got[function] += n
			}
			all := got[python.Unknown]
			for k, n := range want {
				function := fmt.Sprintf("made_%d", k)
				if all += got[function]; got[function] == 0 || got[function] > n { // the first is kept until its name was read
					t.Errorf("%d blocks of %s, want at least 1 and at most %d", got[function], function, n)
				}
			}
			if all < 800 { // the interpreter's own start may have some of that size, too
				t.Errorf("%d blocks, want at least 800: %v", all, got)
			}
		})
	}
}

// The function that frees code objects is the one that the interpreter itself has for it, of each version.
func TestPythonFreesCode(t *testing.T) {
	t.Parallel()
	const program = `
import ctypes, sys
at = ctypes.c_uint64.from_address(id(type(compile("", "", "exec"))) + object.__basicsize__ + 8 + 24).value
for line in open("/proc/self/maps"):
    span, _, offset, _, _, *path = line.split()
    start, end = (int(x, 16) for x in span.split("-"))
    if start <= at < end:
        print(at - start + int(offset, 16), flush=True)
sys.stdin.readline()
`
	for version, path := range pythons(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := spawn(t, exec.Command(path, "-c", program))
			line, _ := c.line()
			files, err := probe.CodeFiles("/proc", c.cmd.Process.Pid, python.MayBe)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range files {
				im, err := python.Find(c.cmd.Process.Pid, python.Mapping{Start: f.Start, Offset: f.Offset, Path: f.Path}, f.File)
				if err == nil && im != nil {
					found = true
					if got := fmt.Sprint(im.FreesCode); got != strings.TrimSpace(line) {
						t.Errorf("found at %s, the interpreter has it at %s", got, line)
					}
				}
				_ = f.File.Close()
			}
			if !found {
				t.Error("no interpreter was found")
			}
			c.say("")
		})
	}
}

// With --python=false all blocks are there, and no frame is Python's.
func TestPythonFramesLeftOut(t *testing.T) {
	t.Parallel()
	out, r := runPython(t, []string{"--python=false"}, debianPython(t), pythonStacks, "3")
	var want uint64
	for _, n := range pythonAnswer(t, out) {
		want += n
	}
	if got := pythonSites(r); len(got) != 1 || got[""] < want {
		t.Errorf("%v, want %d blocks without a Python frame", got, want)
	}
	if r.Events.Lost != 0 || len(r.Warnings) > 0 {
		t.Errorf("%d events lost, warnings %q", r.Events.Lost, r.Warnings)
	}
}
