package cgroup

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestIDsOfHostileStores reads the list of one user's containers, and waits for none of
// the others: a FIFO, links to devices and to what the kernel makes up, a leased file.
func TestIDsOfHostileStores(t *testing.T) {
	root := t.TempDir()
	list := func(user string) string {
		t.Helper()
		dir := filepath.Join(root, "home", user, ".local/share/containers/storage/overlay-containers")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "containers.json")
	}
	id := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	text := []byte(`[{"id": "` + id + `", "names": ["web"]}]`)
	if err := os.WriteFile(list("good"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(list("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for user, to := range map[string]string{"device": "/dev/zero", "terminal": "/dev/tty", "kernel": "/proc/kmsg", "loop": "containers.json"} {
		if err := os.Symlink(to, list(user)); err != nil {
			t.Fatal(err)
		}
	}
	leased := list("leased")
	if err := os.WriteFile(leased, text, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(leased)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	signal.Ignore(unix.SIGIO) // by which the kernel asks for the lease
	t.Cleanup(func() { signal.Reset(unix.SIGIO) })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	if got := IDs(root, "web"); !slices.Equal(got, []string{id}) {
		t.Errorf("got %q, want %q", got, id)
	}
}
