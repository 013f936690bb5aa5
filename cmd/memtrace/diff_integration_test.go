//go:build integration

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// comparedFunction is what diff says of a function.
type comparedFunction struct {
	Key, State   string
	Bytes, Count struct {
		Before, After, Grown, Shrunk uint64
		Change                       int64
	}
}

// TestDiffOfTwoRuns compares runs of a program that says what its functions allocated: children that
// fork, and others that execute it again.
func TestDiffOfTwoRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(name, how, children string) answer {
		return reportOf(t, filepath.Join(dir, name), "births", how, children)
	}
	forks, execs, more := run("forks", "fork", "6"), run("execs", "exec", "3"), run("more", "exec", "5")
	for _, c := range []struct {
		from, to      string
		before, after answer
		states        map[string]string
	}{
		{"forks", "execs", forks, execs, map[string]string{"in_program": "new", "in_child": "stayed", "in_parent": "stayed"}},
		{"execs", "more", execs, more, map[string]string{"in_program": "stayed", "in_child": "stayed", "in_parent": "stayed"}},
		{"more", "forks", more, forks, map[string]string{"in_program": "gone", "in_child": "stayed", "in_parent": "stayed"}},
	} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			rows := diffAllocated(t, "function", filepath.Join(dir, c.from), filepath.Join(dir, c.to))
			for name, state := range c.states {
				before, after := c.before.site(name), c.after.site(name)
				r := rows[name]
				if r.State != state || r.Bytes.Before != before.AllocBytes || r.Bytes.After != after.AllocBytes || r.Count.Before != before.Alloc || r.Count.After != after.Alloc {
					t.Errorf("%s: %+v, want %s from %+v to %+v", name, r, state, before, after)
				}
				grown, shrunk := uint64(0), uint64(0)
				if after.AllocBytes > before.AllocBytes {
					grown = after.AllocBytes - before.AllocBytes
				} else {
					shrunk = before.AllocBytes - after.AllocBytes
				}
				if r.Bytes.Grown != grown || r.Bytes.Shrunk != shrunk || r.Bytes.Change != int64(after.AllocBytes)-int64(before.AllocBytes) {
					t.Errorf("%s grew by %d and shrank by %d, want %d and %d", name, r.Bytes.Grown, r.Bytes.Shrunk, grown, shrunk)
				}
			}
		})
	}
}

// TestDiffOfTwoBuilds compares a program with itself, built with other optimisations: all call sites are
// found again, in spite of other code, other inlining and other addresses.
func TestDiffOfTwoBuilds(t *testing.T) {
	t.Parallel()
	before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	a, b := reportOf(t, before, "cxx_containers"), reportOf(t, after, "cxx_containers_nofp")
	if a.Total != b.Total || a.Total.Alloc == 0 {
		t.Fatalf("the builds themselves differ: %+v and %+v", a.Total, b.Total)
	}
	rows := diffAllocated(t, "site", before, after)
	if len(rows) < 5 {
		t.Errorf("only %d sites", len(rows))
	}
	for _, r := range rows {
		if r.State != "stayed" || r.Bytes.Change != 0 || r.Count.Change != 0 {
			t.Errorf("a site that is the same: %+v", r)
		}
	}
}

// reportOf runs a program under memtrace, and saves the Report.
func reportOf(t *testing.T, path, program string, args ...string) answer {
	t.Helper()
	run := append([]string{"run", "--format", "json", "--report", path, "--", testProgram(program), "run"}, args...)
	out, err := memtraceCommand(t, run...).Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", run, err, out)
	}
	return parseAnswer(t, string(out))
}

// diffAllocated has what was allocated, by what rows are known by.
func diffAllocated(t *testing.T, by, before, after string) map[string]comparedFunction {
	t.Helper()
	out, err := memtraceCommand(t, "diff", before, after, "--format", "json", "--kind", "allocated", "--by", by).Output()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Rows     []comparedFunction
		Warnings []string
		Total    comparedFunction
	}
	if err := json.Unmarshal(out, &doc); err != nil || len(doc.Warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, doc.Warnings)
	}
	rows := make(map[string]comparedFunction)
	change := int64(0)
	for _, r := range doc.Rows {
		rows[r.Key] = r
		change += r.Bytes.Change
	}
	if change != doc.Total.Bytes.Change {
		t.Errorf("the rows changed by %d, the total by %d", change, doc.Total.Bytes.Change)
	}
	return rows
}

// site is what a program says of one of its functions; nothing where it has none of this name.
func (a answer) site(function string) counts {
	for _, s := range a.Sites {
		if s.Function == function {
			return s
		}
	}
	return counts{Function: function}
}
