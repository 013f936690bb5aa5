//go:build integration

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// lostBy is the size of the block that testdata/programs/choose.cc loses for each letter of its argument.
var lostBy = map[rune]int{'c': 101, 'n': 202, 'i': 303, 'm': 404, 'a': 505}

// A checker returns the sizes of the leaked blocks that a tool reports with a
// file of suppressions, in order, and its exit code.
type checker func(t *testing.T, letters, file string) ([]int, int)

func byMemtrace(t *testing.T, letters, file string) ([]int, int) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "report")
	_, code := runLeaks(t, "run", "--fail-on", "definite", "--suppressions", file, "--format", "json", "--report", out, "--", testProgram("choose"), letters)
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, l := range r.Leaks {
		if l.Kind == "definite" {
			sizes = append(sizes, int(l.Bytes))
		}
	}
	slices.Sort(sizes)
	return sizes, code
}

var valgrindLost = regexp.MustCompile(`(\d+) bytes in 1 blocks are definitely lost`)

func byValgrind(t *testing.T, letters, file string) ([]int, int) {
	t.Helper()
	return byTool(t, valgrindLost, exec.Command("valgrind", "--leak-check=full", "--error-exitcode=23", "--suppressions="+file, testProgram("choose"), letters))
}

var lsanLost = regexp.MustCompile(`Direct leak of (\d+) byte\(s\) in 1 object`)

func byLSan(t *testing.T, letters, file string) ([]int, int) {
	t.Helper()
	cmd := exec.Command(testProgram("choose_lsan"), letters)
	cmd.Env = append(os.Environ(), "LSAN_OPTIONS=suppressions="+file)
	return byTool(t, lsanLost, cmd)
}

func byTool(t *testing.T, lost *regexp.Regexp, cmd *exec.Cmd) (sizes []int, code int) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	_ = cmd.Run()
	for _, m := range lost.FindAllStringSubmatch(said.String(), -1) {
		size, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	if code = cmd.ProcessState.ExitCode(); code != 0 && code != 23 {
		t.Fatalf("%v exits with %d:\n%s", cmd, code, said.String())
	}
	return sizes, code
}

func suppressionFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "suppressions")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSuppressionsMeanWhatTheirToolsMean gives the same file and program to
// memtrace and to the tool whose format it is.
func TestSuppressionsMeanWhatTheirToolsMean(t *testing.T) {
	t.Parallel()
	block := func(lines ...string) string {
		return "{\n   known\n   Memcheck:Leak\n   " + strings.Join(lines, "\n   ") + "\n}\n"
	}
	for tool, files := range map[string]map[string]string{
		"LeakSanitizer": {
			"function": "leak:lose_in_c\n", "part": "leak:lose_\n", "demangled": "leak:shop::Widget::make(int)\n", "anchored": "leak:^lose_inlined$\n",
			"stars": "leak:^shop::*many*$\n", "not the end": "leak:Widget::make$\n", "file": "# all of it\nleak:choose.cc\n", "question mark": "leak:lose_in_?\n",
		},
		"Valgrind": {
			"function": block("fun:malloc", "fun:lose_in_c"), "kinds": block("match-leak-kinds: possible,reachable", "fun:malloc", "fun:lose_in_c"),
			"mangled": block("match-leak-kinds: definite", "fun:_Znam", "fun:_ZN4shop6Widget4makeEi", "..."), "wild": block("fun:*alloc", "fun:*lose_in?c"),
			"any frames": block("...", "fun:main"), "object": block("fun:memalign", "fun:posix_memalign", "obj:*/choose"), "template": block("fun:calloc", "fun:_ZN4shop6Widget4manyI*"),
			"caller only": block("fun:main"), "below": block("fun:malloc", "...", "fun:_ZL4losec"),
		},
	} {
		theirs := checker(byValgrind)
		if tool == "LeakSanitizer" {
			theirs = byLSan
		}
		for name, text := range files {
			t.Run(tool+"/"+name, func(t *testing.T) {
				t.Parallel()
				file := suppressionFile(t, text)
				want, wantCode := theirs(t, "cnima", file)
				if name == "below" {
					// memtrace does not know malloc from calloc and
					// posix_memalign, only both from operator new.
					want = slices.DeleteFunc(want, func(size int) bool { return size == 404 || size == 505 })
				}
				if name == "object" {
					want = []int{202}
				}
				got, code := byMemtrace(t, "cnima", file)
				if !slices.Equal(got, want) || code != wantCode {
					t.Errorf("memtrace reports %v and exits with %d, %s %v with %d", got, code, tool, want, wantCode)
				}
			})
		}
	}
}

// TestWrittenSuppressionsWork: what --gen-suppressions writes for one leak
// takes that leak out of each tool's report, and no other.
func TestWrittenSuppressionsWork(t *testing.T) {
	t.Parallel()
	for letter, size := range lostBy {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			valgrind, lsan := filepath.Join(dir, "valgrind"), filepath.Join(dir, "lsan")
			if _, code := runLeaks(t, "run", "--gen-suppressions", valgrind, "--gen-suppressions", "lsan:"+lsan, "--", testProgram("choose"), string(letter)); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			var others []int
			for _, other := range lostBy {
				if other != size {
					others = append(others, other)
				}
			}
			slices.Sort(others)
			checks := map[string]func(letters string) ([]int, int){
				"memtrace":                func(s string) ([]int, int) { return byMemtrace(t, s, valgrind) },
				"memtrace, LSan's format": func(s string) ([]int, int) { return byMemtrace(t, s, lsan) },
				"Valgrind":                func(s string) ([]int, int) { return byValgrind(t, s, valgrind) },
				"LeakSanitizer":           func(s string) ([]int, int) { return byLSan(t, s, lsan) },
			}
			if letter == 'a' {
				delete(checks, "Valgrind") // in which posix_memalign makes two frames: see docs/ci.md
			}
			for name, check := range checks {
				if got, code := check("cnima"); !slices.Equal(got, others) || code != 23 {
					t.Errorf("%s: %v and exit code %d, want %v", name, got, code, others)
				}
				if got, code := check(string(letter)); len(got) != 0 || code != 0 {
					t.Errorf("%s: %v and exit code %d, want none", name, got, code)
				}
			}
			if t.Failed() {
				for _, file := range []string{valgrind, lsan} {
					text, _ := os.ReadFile(file)
					t.Logf("%s", text)
				}
			}
		})
	}
}
