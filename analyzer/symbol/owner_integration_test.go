//go:build integration

package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOthersDirectories must not be used by root, nor links that others made.
func TestOthersDirectories(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id")
	addrs := []uint64{symbolValue(t, program, "plain")}
	dir := t.TempDir()
	theirs, link := filepath.Join(dir, "theirs"), filepath.Join(dir, "link")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs, 1, 1); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	if err := os.Symlink("ours", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 1, 1); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []string{theirs, filepath.Join(theirs, "below"), link} {
		_, warnings, _ := lookUp(t, program, addrs, Options{Cache: cache})
		if len(warnings) != 1 || !strings.Contains(warnings[0], "belongs to user 1") {
			t.Errorf("%s: warnings %q, want one that says whose it is", cache, warnings)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(found) > 0 {
		t.Errorf("%q was made", found)
	}
}

// TestOthersPerfMap must not be believed.
func TestOthersPerfMap(t *testing.T) {
	c := start(t, compile(t, "jit.c"))
	code := c.address(t, 0)
	path := fmt.Sprintf("/tmp/perf-%d.map", c.cmd.Process.Pid)
	t.Cleanup(func() { os.Remove(path) })
	appendTo(t, path, fmt.Sprintf("%x 10 f\n", code))
	if err := os.Chown(path, 1, 1); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	s, r := c.space(t), newResolver(t, Options{})
	s.jit.every = 0
	if got := r.Function(s, code); got != anonymous {
		t.Errorf("%s, from a file of another user", got)
	}
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	if got := r.Function(s, code); got != "f" {
		t.Errorf("%s, want f", got)
	}
}
