//go:build integration && services

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// libraryScript loads libraries that allocate thousands of blocks as they
// start, and says how often it was signalled: by nobody, then by itself.
const libraryScript = `
import os, signal
seen = 0
def note(*_):
    global seen
    seen += 1
signal.signal(signal.SIGURG, note)
import ssl, sqlite3, hashlib, lzma, bz2, decimal
uncalled = seen
os.kill(os.getpid(), signal.SIGURG)
print(uncalled, seen)
`

// TestLibrariesAreKnownBeforeTheyMatter loads libraries whose tables no run
// has made before: the process waits for them, and sees no signal of ours but
// all of its own.
func TestLibrariesAreKnownBeforeTheyMatter(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "libraries.py")
	if err := os.WriteFile(script, []byte(libraryScript), 0o644); err != nil {
		t.Fatal(err)
	}
	r, out := runTraced(t, []string{"XDG_CACHE_HOME=" + t.TempDir()}, "/usr/bin/python3", "-I", script)
	if out != "0 1\n" {
		t.Errorf("the program got %q signals of nobody and of itself, want 0 and 1", out)
	}
	crypto, whole := uint64(0), uint64(0)
	for i := range r.Sites {
		s := &r.Sites[i]
		if len(s.Stack) == 0 || !strings.Contains(s.Stack[0].Module, "libcrypto.so") {
			continue
		}
		crypto += s.AllocCount
		if !s.Truncated {
			whole += s.AllocCount
		}
	}
	// A library's first allocation is what stops the process; two dozen are loaded.
	if crypto < 2000 || crypto-whole > 8 || r.Stacks.Broken > 64 {
		t.Errorf("%d of %d allocations of libcrypto have whole stacks; all end so: %+v", whole, crypto, r.Stacks)
	}
}
