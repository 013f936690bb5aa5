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

// count writes how many tests ended how.
func count(w io.Writer, runs []run) error {
	n := make(map[string]int)
	each(runs, func(_ key, res *result) { n[res.end]++ })
	_, err := fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", n["pass"], n["fail"], n["skip"])
	return err
}
