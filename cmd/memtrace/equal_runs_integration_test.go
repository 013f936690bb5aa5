//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRunsGiveEqualReports runs each program that loses blocks several times, and compares the Reports. All of
// them must be equal, but for what docs/reachability.md names. MEMTRACE_EQUAL_RUNS=50 runs each that often.
func TestRunsGiveEqualReports(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program, how string
		runs         int
	}{
		{"leak_corpus", "x", 5}, {"leak_corpus_rust", "exit", 5},
		{"leak_grid_O2", "return", 2}, // 100 children, eight at a time
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			runs := c.runs
			if n, err := strconv.Atoi(os.Getenv("MEMTRACE_EQUAL_RUNS")); err == nil && n > 1 {
				runs = n
			}
			file := filepath.Join(t.TempDir(), "report")
			var first map[string]string
			for run := range runs {
				if _, code := runLeaks(t, "run", "--leaks", "--top", "0", "--format", "json", "--report", file, "--",
					testProgram(c.program), c.how); code != 0 {
					t.Fatalf("exit code %d", code)
				}
				if figures := figuresOfRun(t, file); run == 0 {
					first = figures
				} else if differ := differing(first, figures); len(differ) > 0 {
					t.Errorf("run %d differs from the first one in %d places:\n%s", run+1, len(differ),
						strings.Join(differ[:min(20, len(differ))], "\n"))
				}
			}
			t.Logf("%d runs, %d figures and names each", runs, len(first))
		})
	}
}

// varying are the figures that may differ from run to run, beside times and PIDs, by why that is so.
var varying = map[string][]string{
	"the kernel faults pages of files in around others, and where a stack begins in its page is random": {
		`events\.fault_(minor|major|unattributed)`, `processes\[\]\.usage\.\w+`,
		`processes\[\]\.(rss_by|anon_mmap_by)\.\w+`, `sites\[\]\.faults`,
		`(processes\[\]\.heap|sites\[\]|regions\[\]|leaks\[\]\.pages)\.(resident|untouched|swapped)_bytes`,
	},
	"what is read are pages that are there, in an order of the workers'": {
		`processes\[\]\.leak_check\.(root|read|swapped)_bytes`,
	},
	"a Report of before, if there was one, was at another moment": {
		`(sites|regions)\[\]\.growth_bytes`,
	},
	"processes that run side by side come to new sites in no order of theirs": {
		`sites\[\]\.(id|merged_ids\[\])`,
	},
}

var (
	timeNames   = regexp.MustCompile(`_ns$|^made\.at$`)
	placeInList = regexp.MustCompile(`\[\d+\]`)
	rootsInWhy  = regexp.MustCompile(`in [0-9.]+ [KMGT]?i?B of roots`)
)

// figuresOfRun are all figures and names of a saved Report that no run may have otherwise, by their paths. Where it
// names a process by PID, or a site, it is named by its place.
func figuresOfRun(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	flatten(r, "", all)
	var patterns []string
	for _, p := range varying {
		patterns = append(patterns, p...)
	}
	free := regexp.MustCompile(`^(` + strings.Join(patterns, "|") + `)$`)
	pids, sites := placesOf(all, "processes[%d].pid"), placesOf(all, "sites[%d].id")
	out := make(map[string]string, len(all))
	for path, v := range all {
		switch name := placeInList.ReplaceAllString(path, "[]"); {
		case timeNames.MatchString(name):
			v = "a time"
		case free.MatchString(name):
			v = "" // that it is there counts
		case strings.HasSuffix(name, ".pid"):
			v = pids[v]
		case name == "leaks[].site":
			v = sites[v]
		case name == "leaks[].why":
			v = rootsInWhy.ReplaceAllString(v, "in some roots")
		}
		out[path] = v
	}
	return out
}

// flatten lists what a value in JSON holds, by path: a.b[3].c.
func flatten(v any, path string, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			flatten(part, strings.TrimPrefix(path+"."+name, "."), out)
		}
	case []any:
		out[path+"[]"] = fmt.Sprintf("%d entries", len(v))
		for i, part := range v {
			flatten(part, fmt.Sprintf("%s[%d]", path, i), out)
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}

// placesOf are the places of the members of a list by what they say there.
func placesOf(all map[string]string, path string) map[string]string {
	places := make(map[string]string)
	for i := 0; ; i++ {
		v, ok := all[fmt.Sprintf(path, i)]
		if !ok {
			return places
		}
		places[v] = fmt.Sprintf("number %d", i)
	}
}

// differing says what of two runs' figures is not the same.
func differing(a, b map[string]string) (out []string) {
	paths := slices.Sorted(maps.Keys(a))
	for path := range b {
		if _, ok := a[path]; !ok {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		x, first := a[path]
		y, second := b[path]
		if x != y || first != second {
			out = append(out, fmt.Sprintf("%s: %q and %q", path, x, y))
		}
	}
	return out
}
