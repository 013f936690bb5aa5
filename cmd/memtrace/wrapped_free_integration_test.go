//go:build integration

package main

import (
	"path/filepath"
	"testing"
)

// A preloaded counter's free calls the allocator's: that is one free, as the program counts it.
func TestFreeThatCallsAnother(t *testing.T) {
	t.Parallel()
	counter, err := filepath.Abs(testProgram("libcount_calls.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range mechanismsHere(t) {
		t.Run(string(mechanism), func(t *testing.T) {
			t.Parallel()
			how := []string{"--attach", string(mechanism)}
			c, r := runAnswering(t, []string{"LD_PRELOAD=" + counter}, how, []string{testProgram("every_function"), "run"})
			c.checkSites(t, &r)
			if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || len(r.Warnings) != 0 {
				t.Errorf("%d events lost, %d frees of nothing; warnings %q", r.Events.Lost, r.Events.UnmatchedFree, r.Warnings)
			}
		})
	}
}
