//go:build integration

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// library is the path of one of Debian's allocators.
func library(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/lib/*-linux-gnu*", "/usr/lib/llvm-*/lib/clang/*/lib/linux"} {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("%s is not installed (.ci/setup test installs it)", name)
	return ""
}

// privateLibrary is a copy that nobody else on the machine maps: what other
// traces probe is none of its.
func privateLibrary(t *testing.T, name string) string {
	t.Helper()
	from := library(t, name)
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.WriteFile(own, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return own
}

// startPrivate is startProgram of a private copy, the C library included.
func startPrivate(t *testing.T, name string, args ...string) *spawned {
	t.Helper()
	c := spawn(t, proctest.Copy(t, testProgram(name), name).Command(append([]string{"attach"}, args...)...))
	c.lineWith("ready ")
	return c
}
