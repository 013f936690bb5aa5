package debugfile

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// lease takes a write lease on a new file, which makes an open for reading wait
// for /proc/sys/fs/lease-break-time. It returns how to let go.
func lease(t *testing.T, path string) (letGo func()) {
	t.Helper()
	signal.Ignore(unix.SIGIO) // by which the kernel asks for it
	t.Cleanup(func() { signal.Reset(unix.SIGIO) })
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenLeased doesn't wait, and succeeds once the lease is gone.
func TestOpenLeased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	letGo := lease(t, path)
	if f, err := Open(path); !errors.Is(err, ErrLeased) || !Refused(err) {
		t.Fatalf("got %v, %v, want the error that a lease is held", f, err)
	}
	letGo()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "content" {
		t.Errorf("read %q, %v", text, err)
	}
}

// TestOpenWhatIsNotToBeRead opens no FIFO, device or link to one, nor what the
// kernel makes up.
func TestOpenWhatIsNotToBeRead(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/tty", link); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for path, want := range map[string]error{
		fifo: ErrNotRegular, link: ErrNotRegular, "/dev/null": ErrNotRegular, dir: ErrNotRegular,
		"/proc/self/maps": ErrPseudo, "/proc/version": ErrPseudo, "/sys/kernel/notes": ErrPseudo,
		filepath.Join(dir, "none"): unix.ENOENT,
	} {
		if _, err := Open(path); !errors.Is(err, want) {
			t.Errorf("Open(%s): %v, want %v", path, err, want)
		}
		if fd, _, err := OpenRegularIn(root, path); !errors.Is(err, want) {
			t.Errorf("OpenRegularIn(/, %s): %d, %v, want %v", path, fd, err, want)
		}
	}
}

// TestRootsFUSE takes a FUSE file system for root's only if root has mounted it here.
func TestRootsFUSE(t *testing.T) {
	const text = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:41 / /home/u/x rw,nosuid,nodev shared:2 - fuse.sshfs u@h:/ rw,user_id=1000,group_id=1000
31 22 0:42 / /mnt rw,nosuid,nodev shared:3 - fuse.sshfs h:/ rw,user_id=0,group_id=0,allow_other
32 22 0:43 / /code rw - virtiofs code rw
33 22 0:44 / /odd rw - fuse
`
	for device, want := range map[string]bool{"0:41": false, "0:42": true, "0:43": true, "0:44": false, "0:45": false} {
		if got := rootsFUSE(text, device); got != want {
			t.Errorf("%s: %v, want %v", device, got, want)
		}
	}
}
