//go:build integration && services

package main

import (
	"os/exec"
	"testing"
)

// The packages are built twice the same, pass their checkers, and leave nothing behind; packaging/test-packages says how.
func TestPackages(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("make", "-C", "../..", "--no-print-directory", "test-packages-built").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
