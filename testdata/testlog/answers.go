package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// failed writes each test that failed in any of the runs.
func failed(w io.Writer, runs []run) error {
	var err error
	each(runs, func(k key, res *result) {
		if res.end == "fail" && err == nil {
			_, err = fmt.Fprintln(w, k)
		}
	})
	return err
}

func each(runs []run, fn func(key, *result)) {
	for _, r := range runs {
		for _, k := range r.order {
			fn(k, r.results[k])
		}
	}
}

const slow = 20

// slowest writes the tests that took longest, in seconds.
func slowest(w io.Writer, runs []run) error {
	took := make(map[key]float64)
	each(runs, func(k key, res *result) {
		if k.test != "" {
			took[k] = max(took[k], res.seconds)
		}
	})
	order := slices.SortedFunc(maps.Keys(took), func(a, b key) int {
		return cmp.Or(cmp.Compare(took[b], took[a]), cmp.Compare(a.String(), b.String()))
	})
	for _, k := range order[:min(slow, len(order))] {
		if _, err := fmt.Fprintf(w, "%7.1f s  %s\n", took[k], k); err != nil {
			return err
		}
	}
	return nil
}

// outputLines are how many of a failed test's last lines are shown.
const outputLines = 60

// rates writes how often each test failed that failed at all, the most frequent first, and then what was printed.
func rates(w io.Writer, runs []run) error {
	ran, outputs := make(map[key]int), make(map[key][]string)
	each(runs, func(k key, res *result) {
		if res.end != "" {
			ran[k]++
		}
		if res.end == "fail" {
			outputs[k] = append(outputs[k], res.output.String())
		}
	})
	order := slices.SortedFunc(maps.Keys(outputs), func(a, b key) int {
		return cmp.Or(cmp.Compare(len(outputs[b]), len(outputs[a])), cmp.Compare(a.String(), b.String()))
	})
	var text strings.Builder
	if len(order) == 0 {
		fmt.Fprintf(&text, "No test failed in %d runs.\n", len(runs))
	}
	for _, k := range order {
		fmt.Fprintf(&text, "%3d of %d  %s\n", len(outputs[k]), ran[k], k)
	}
	for _, k := range order {
		for i, output := range outputs[k] {
			fmt.Fprintf(&text, "\n--- %s, failure %d:\n%s", k, i+1, lastLines(output))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func lastLines(text string) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(lines[max(0, len(lines)-outputLines):], "")
}

// Of what a failed test printed, the last lines are shown, and so many bytes of each.
const (
	complaintLines  = 8
	complaintLength = 400
)

// complaints writes each test that failed, and the last lines that it printed: of its sub-tests only those that failed.
func complaints(w io.Writer, runs []run) error {
	var text strings.Builder
	each(runs, func(k key, res *result) {
		if res.end != "fail" {
			return
		}
		subs := failedSubs(res)
		if len(subs) == 0 {
			fmt.Fprintf(&text, "%s:\n%s", k, complaint(res))
		}
		for _, name := range subs {
			fmt.Fprintf(&text, "%s/%s:\n%s", k, name, complaint(res.subs[name]))
		}
	})
	_, err := io.WriteString(w, text.String())
	return err
}

// failedSubs are the sub-tests that failed or never ended, in order, but for those that failed by one of their own.
func failedSubs(res *result) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(res.subs)) {
		if sub := res.subs[name]; sub.end == "fail" || sub.end == "" {
			names = append(names, name)
		}
	}
	failed := slices.Clone(names)
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

func complaint(res *result) string {
	var lines []string
	for line := range strings.Lines(res.output.String()) {
		line = strings.TrimRight(line, "\n")
		if bare := strings.TrimSpace(line); bare == "" || strings.HasPrefix(bare, "=== ") || strings.HasPrefix(bare, "--- ") {
			continue
		}
		lines = append(lines, "    "+line[:min(len(line), complaintLength)]+"\n")
	}
	return strings.Join(lines[max(0, len(lines)-complaintLines):], "")
}

// count writes how many tests ended how.
func count(w io.Writer, runs []run) error {
	n := make(map[string]int)
	each(runs, func(_ key, res *result) { n[res.end]++ })
	_, err := fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", n["pass"], n["fail"], n["skip"])
	return err
}
