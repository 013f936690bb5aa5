package debugfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenTrusted follows links, and takes no file that others could write, or put in
// its place.
func TestOpenTrusted(t *testing.T) {
	dir := t.TempDir() // below a sticky directory, usually
	write := func(name string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("good/file", 0o644)
	write("good/everybody's", 0o666)
	write("good/group's", 0o664)
	write("open/file", 0o644)
	if err := os.Chmod(filepath.Join(dir, "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	link("relative", "good/../good/file")
	link("absolute", filepath.Join(dir, "good/file"))
	link("through", "open/file")
	link("loop", "loop")
	link("messages", "/proc/kmsg")
	link("device", "/dev/null")
	for name, want := range map[string]error{
		"good/file": nil, "relative": nil, "absolute": nil, "good/../good/./file": nil,
		"good/everybody's": ErrOthersWrite, "good/group's": ErrOthersWrite, "open/file": ErrOthersWrite, "through": ErrOthersWrite,
		"loop": unix.ELOOP, "messages": ErrPseudo, "device": ErrPseudo, "none": unix.ENOENT, "open/none": unix.ENOENT, "good": ErrNotRegular, "good/file/x": unix.ENOTDIR,
	} {
		fd, _, err := OpenTrusted(dir + "/" + name)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"/proc/version", "/proc/kmsg", "/sys/kernel/notes", "/dev/null", "/usr/../proc/version"} {
		if _, _, err := OpenTrusted(name); !errors.Is(err, ErrPseudo) {
			t.Errorf("OpenTrusted(%s): %v", name, err)
		}
		if _, _, err := OpenOwn(name); !errors.Is(err, ErrPseudo) {
			t.Errorf("OpenOwn(%s): %v", name, err)
		}
		if _, _, err := OpenOwnIn(unix.AT_FDCWD, name); !errors.Is(err, ErrPseudo) {
			t.Errorf("OpenOwnIn(%s): %v", name, err)
		}
	}
	if _, _, err := OpenTrusted("file"); err == nil {
		t.Error("a relative path was opened")
	}
}

// TestOwned takes root, the user who runs this and the owners that are named.
func TestOwned(t *testing.T) {
	own := uint32(os.Geteuid())
	if !Owned(0) || !Owned(own) || Owned(own+1) || !Owned(own+1, own+1) {
		t.Error("another user than those")
	}
}

// TestLinkNames takes no name that leads elsewhere.
func TestLinkNames(t *testing.T) {
	dirs := []string{"/usr/lib/debug"}
	for _, link := range []string{"", ".", "..", "../x", "/etc/shadow", "a/b"} {
		if got := LinkNames(dirs, "/bin/x", link, true); got != nil {
			t.Errorf("%q: %v", link, got)
		}
	}
	if got := LinkNames(dirs, "[vdso]", "x.debug", true); got != nil {
		t.Errorf("without a path: %v", got)
	}
	for beside, want := range map[bool][]string{
		true:  {"/bin/x.debug", "/bin/.debug/x.debug", "/usr/lib/debug/bin/x.debug"},
		false: {"/usr/lib/debug/bin/x.debug"},
	} {
		if got := LinkNames(dirs, "/bin/x", "x.debug", beside); !slices.Equal(got, want) {
			t.Errorf("beside %v: %v, want %v", beside, got, want)
		}
	}
}
