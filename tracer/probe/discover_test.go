//go:build amd64

package probe

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// startCat starts cat and waits until it has echoed a line, by which it is
// known to be up.
func startCat(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := io.WriteString(in, "up\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("cat said %q, %v", line, err)
	}
	return cmd
}

func TestDiscoverChild(t *testing.T) {
	child := startCat(t, "/bin/cat")
	objects, err := Discover("/proc", child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(objects)
	if len(objects) != 1 {
		t.Fatalf("found %d allocators, want libc's: %+v", len(objects), objects)
	}
	o := objects[0]
	path, err := filepath.EvalSymlinks(libcPath(t))
	if err != nil {
		t.Fatal(err)
	}
	if o.Path != path || o.Family != Glibc {
		t.Errorf("found %s of %s, want glibc of %s", o.Family, o.Path, path)
	}
	mapped, err := o.File.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.Stat(path); err != nil || !os.SameFile(mapped, want) {
		t.Errorf("File is not %s (%v)", path, err)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", child.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("%x-%x r-xp %08x %02x:%02x %d ", o.Text[0].Start, o.Text[0].End, o.Text[0].Offset, o.Major, o.Minor, o.Inode)
	if len(o.Text) != 1 || !strings.Contains(string(maps), line) {
		t.Errorf("Text = %x; no line %q in\n%s", o.Text, line, maps)
	}
}

func TestDiscoverExited(t *testing.T) {
	child := startCat(t, "/bin/cat")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not reaped: wait for the zombie without reaping it.
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Discover("/proc", child.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("zombie: %v, want os.ErrProcessDone", err)
	}
	_ = child.Wait() // killed
	if _, err := Discover("/proc", child.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("reaped: %v, want os.ErrProcessDone", err)
	}
}

// procTree makes a /proc with process 1, whose root is a new directory. The
// maps name each file with the key of the file that keyOf gives for it.
func procTree(t *testing.T, keyOf map[string]string) (proc, root string) {
	t.Helper()
	proc, root = t.TempDir(), t.TempDir()
	dir := filepath.Join(proc, "1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	var maps strings.Builder
	maps.WriteString("7ffd0000-7ffd1000 r-xp 00000000 00:00 0                  [vdso]\n")
	at := 0x400000
	for name, real := range keyOf {
		var st unix.Stat_t
		if err := unix.Stat(real, &st); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&maps, "%x-%x r-xp 00001000 %02x:%02x %d      /%s\n", at, at+0x1000, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, name)
		at += 0x1000
	}
	writeFile(t, filepath.Join(dir, "maps"), maps.String())
	return proc, root
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDiscoverByPath: without map_files, the path under the process's own
// root is taken, but only if it leads to the mapped file.
func TestDiscoverByPath(t *testing.T) {
	lib := link(t, ".text\n"+allocatorAsm, "-shared")
	t.Run("the file", func(t *testing.T) {
		proc, root := procTree(t, map[string]string{"lib.so": lib})
		if err := os.Link(lib, filepath.Join(root, "lib.so")); err != nil {
			t.Fatal(err) // both are in the test's temporary directory
		}
		objects, err := Discover(proc, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer CloseAll(objects)
		if len(objects) != 1 || objects[0].Path != "/lib.so" || objects[0].Text[0] != (Range{0x400000, 0x401000, 0x1000}) {
			t.Errorf("found %+v", objects)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		proc, root := procTree(t, map[string]string{"lib.so": lib})
		data, err := os.ReadFile(lib)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, "lib.so"), string(data)) // the same bytes, another file
		wantErrors(t, proc, ErrNoAllocator, ErrFileReplaced)
	})
	t.Run("deleted", func(t *testing.T) {
		proc, _ := procTree(t, map[string]string{"lib.so (deleted)": lib})
		wantErrors(t, proc, ErrNoAllocator, ErrFileReplaced)
	})
	t.Run("a FIFO in its place", func(t *testing.T) {
		proc, root := procTree(t, map[string]string{"lib.so": lib})
		if err := unix.Mkfifo(filepath.Join(root, "lib.so"), 0o600); err != nil {
			t.Fatal(err)
		}
		wantErrors(t, proc, ErrNoAllocator)
	})
	t.Run("newline in the name", func(t *testing.T) {
		proc, root := procTree(t, map[string]string{`a\012b.so`: lib})
		if err := os.Link(lib, filepath.Join(root, "a\nb.so")); err != nil {
			t.Fatal(err)
		}
		objects, err := Discover(proc, 1)
		CloseAll(objects)
		if err != nil || objects[0].Path != "/a\nb.so" {
			t.Errorf("found %+v, %v", objects, err)
		}
	})
}

func wantErrors(t *testing.T, proc string, want ...error) {
	t.Helper()
	objects, err := Discover(proc, 1)
	CloseAll(objects)
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("Discover = %+v, %v; want %v", objects, err, w)
		}
	}
}

// TestDiscoverExplains: what is said of a process without an allocator.
func TestDiscoverExplains(t *testing.T) {
	self, err := os.Executable() // a Go program
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	writeFile(t, foreign, string(elfFile(elf.EM_AARCH64, []rawFunction{
		{"malloc", []byte{0xc0, 0x03, 0x5f, 0xd6}, elf.STT_FUNC}, {"free", []byte{0xc0, 0x03, 0x5f, 0xd6}, elf.STT_FUNC},
	})))
	narrow := filepath.Join(t.TempDir(), "narrow")
	writeFile(t, narrow, "\x7fELF\x01\x01\x01"+strings.Repeat("\x00", 100))
	bare := asmFunction("_start", "ret")
	libc := bare + asmFunction("__libc_start_main", "ret")
	own := ".type pool_alloc, @function\npool_alloc: ret\n" // a local symbol
	for _, tt := range []struct {
		name, file string
		want       []error
		says       string
	}{
		{"Go", self, []error{ErrGoProgram}, "memtrace -p"},
		{"static", link(t, bare, "-static"), []error{ErrNoAllocator}, "in /program"},
		{"static, nothing of its C library's allocator", link(t, libc, "-static"), []error{ErrAllocatesNothing}, "without malloc"},
		{"static, with an allocator of its own", link(t, libc+own, "-static"), []error{ErrNoAllocator}, "in /program"},
		{"static and stripped, with a C library", link(t, libc, "-static", "-s"), []error{ErrStripped}, "strip"},
		{"static and stripped", link(t, bare, "-static", "-s"), []error{ErrStripped}, "strip"},
		{"dynamic", link(t, bare, "-shared", "-s"), []error{ErrNoAllocator}, "/program"},
		{"another machine", foreign, []error{ErrNotSupportedMachine}, "EM_AARCH64"},
		{"32-bit", narrow, []error{Err32Bit}, "32-bit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proc, root := procTree(t, map[string]string{"program": tt.file})
			if err := os.Symlink(tt.file, filepath.Join(root, "program")); err != nil {
				t.Fatal(err)
			}
			_, err := Discover(proc, 1)
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("%v; want %v", err, want)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
}

func TestDiscoverKernelThread(t *testing.T) {
	proc, _ := procTree(t, nil)
	dir := filepath.Join(proc, "1")
	writeFile(t, filepath.Join(dir, "maps"), "")
	writeFile(t, filepath.Join(dir, "stat"), "1 (k) Z) S 2 0 0 0 -1")
	wantErrors(t, proc, ErrKernelThread)
	writeFile(t, filepath.Join(dir, "stat"), "1 (cat) Z 2 0 0 0 -1")
	wantErrors(t, proc, os.ErrProcessDone)
	writeFile(t, filepath.Join(dir, "maps"), "this is no mapping\n")
	if _, err := Discover(proc, 1); err == nil {
		t.Error("malformed maps: no error")
	}
}

// TestMapsAs: where stat's device is not that of maps, mapping the file tells.
func TestMapsAs(t *testing.T) {
	path := libcPath(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	child := startCat(t, "/bin/cat")
	objects, err := Discover("/proc", child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(objects)
	key := fileKey{objects[0].Major, objects[0].Minor, objects[0].Inode}
	if same, err := mapsAs(f, key); err != nil || !same {
		t.Errorf("mapsAs(%s, %v) = %v, %v", path, key, same, err)
	}
	key.inode++
	if same, err := mapsAs(f, key); err != nil || same {
		t.Errorf("mapsAs(%s, %v) = %v, %v; it is another file's", path, key, same, err)
	}
}

func TestCloseTwice(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	o := Object{File: f}
	if err := errors.Join(o.Close(), o.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the file is still open: %v", err)
	}
}

// TestReadMaps: those of files' code are listed, with the path as it was given to the kernel.
func TestReadMaps(t *testing.T) {
	read := func(text string) ([]mapping, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readMaps(dir)
		return got.mappings, err
	}
	const code = "7f0000001000-7f0000002000 r-xs 0001f000 103:0a 4711                       /a\\012b (deleted)\n"
	got, err := read("7f0000000000-7f0000001000 r--p 0001e000 103:0a 4711 /a\n" + code +
		"7f0000002000-7f0000003000 r-xp 00000000 00:00 0 \n")
	want := mapping{Range{0x7f0000001000, 0x7f0000002000, 0x1f000}, 0x103, 0xa, 4711, "/a\nb"}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, line := range []string{"", "x", "1-2 r-xp 0 0:0", "1-2 r-xp 0 0:0 x", "g-2 r-xp 0 0:0 0", "12 r-xp 0 00 0"} {
		if got, err := read(code + line + "\n"); err == nil {
			t.Errorf("%q: %+v, no error", line, got)
		}
	}
}
