//go:build integration && amd64

package main

import (
	"strings"
	"testing"
)

// doctor says whose results can be predicted: of glibc's functions malloc's, never
// those of realloc and free.
func TestDoctorSaysWhatIsPredicted(t *testing.T) {
	c := program(t, "user_alloc")
	text := doctorOf(t, c.pid())
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.Contains(fields[1], "+") {
			seen[fields[0]] = strings.Contains(line, "can be predicted")
		}
	}
	realloc, hasRealloc := seen["realloc"]
	if !seen["malloc"] || !hasRealloc || realloc || seen["free"] {
		t.Errorf("doctor says:\n%s", text)
	}
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}
