package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A thread that is just ending, or has been killed and not run since, is no one
// to tie probes to, whatever its name contains.
func TestThreadEnded(t *testing.T) {
	const pid = 41
	root := t.TempDir()
	dir := filepath.Join(root, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		state   string
		flags   int
		pending int
		ended   bool
	}{
		"running":       {"R", 0x400000, 0, false},
		"zombie":        {"Z", 0x400000, 0, true},
		"dead":          {"X", 0x400000, 0, true},
		"exiting":       {"D", 0x400004, 0, true},
		"killed":        {"S", 0x400000, 256, true},
		"other signals": {"S", 0x400000, 128 | 512, false},
	} {
		line := fmt.Sprintf("%d (a) Z 1 (b) %s 1 1 1 0 -1 %d 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 12 13 14 15 16 17 %d 0 0 0 0 0 0 17\n",
			pid, want.state, want.flags, want.pending)
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ThreadEnded(root, pid, pid); got != want.ended {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !ThreadEnded(root, pid, pid+1) {
		t.Error("a thread that isn't there has not ended")
	}
}
