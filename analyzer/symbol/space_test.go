package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

func TestListed(t *testing.T) {
	text := `55d0c4e00000-55d0c4e01000 r--p 00000000 fe:01 1311 /usr/bin/cat
55d0c4e01000-55d0c4e06000 r-xp 00001000 fe:01 1311                       /usr/bin/a b (deleted)
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000002000-7f0000003000 r-xs 00003000 00:2f 18446744073709551615       /tmp/x\012y
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
`
	want := []region{
		{start: 0x55d0c4e01000, end: 0x55d0c4e06000, offset: 0x1000, major: 0xfe, minor: 1, inode: 1311, path: "/usr/bin/a b", deleted: true},
		{start: 0x7f0000000000, end: 0x7f0000001000},
		{start: 0x7f0000002000, end: 0x7f0000003000, offset: 0x3000, minor: 0x2f, inode: 1<<64 - 1, path: "/tmp/x\ny"},
		{start: 0x7ffd00000000, end: 0x7ffd00002000, path: "[vdso]"},
	}
	if got := regionsOf(t, text); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestRegionsOfMovedCode: anonymous code is a file's where it fills what its neighbours, of code or not, leave out.
func TestRegionsOfMovedCode(t *testing.T) {
	const text = `400000-410000 r--p 00000000 fe:01 77                         /bin/x
410000-420000 r-xp 00000000 00:00 0 
420000-430000 r--p 00020000 fe:01 77                         /bin/x
500000-510000 r-xp 00000000 fe:01 77                         /bin/x
510000-520000 r-xp 00000000 00:00 0                          [anon:text]
520000-530000 r-xp 00020000 fe:01 77                         /bin/x
600000-610000 r--p 00000000 fe:01 78                         /lib/y
610000-620000 r-xp 00000000 00:00 0 
620000-630000 r--p 00030000 fe:01 78                         /lib/y
700000-710000 r--p 00000000 fe:01 78                         /lib/y
710000-720000 r-xp 00000000 00:00 0 
720000-730000 r--p 00020000 fe:01 77                         /bin/x
800000-810000 r--p 00000000 fe:01 77                         /bin/x
810000-820000 r-xp 00000000 00:00 0 
`
	var got []string
	for _, r := range regionsOf(t, text) {
		got = append(got, fmt.Sprintf("%x %x %s", r.start, r.offset, r.path))
	}
	want := []string{
		"410000 10000 /bin/x", "500000 0 /bin/x", "510000 10000 /bin/x", "520000 20000 /bin/x",
		"610000 0 ", "710000 0 ", "810000 0 ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func regionsOf(t *testing.T, text string) []region {
	t.Helper()
	maps, err := listed(func(fn func(*procfs.VMA) bool) (bool, error) {
		return procfs.CodeIn(strings.NewReader(text), fn)
	})
	if err != nil {
		t.Fatal(err)
	}
	return maps.regions
}

// TestManyMappings: 65,530 parts of a file with the longest of paths take the
// memory of one path, and the same of many files no more than Names has room for.
func TestManyMappings(t *testing.T) {
	for what, path := range map[string]func(i int) string{
		"one file":   func(int) string { return "/" + strings.Repeat("d", 4095) },
		"many files": func(i int) string { return fmt.Sprintf("/%08d%s", i, strings.Repeat("d", 4087)) },
	} {
		from, to := io.Pipe()
		go func() {
			for i := range 65_530 {
				at := 0x7f0000000000 + i<<13
				fmt.Fprintf(to, "%x-%x r-xp 00001000 fe:01 %d                       %s\n", at, at+0x1000, 7, path(i))
			}
			to.Close()
		}()
		maps, err := listed(func(fn func(*procfs.VMA) bool) (bool, error) { return procfs.CodeIn(from, fn) })
		if err != nil || len(maps.regions) != 65_530 {
			t.Fatalf("%s: %d regions, %v", what, len(maps.regions), err)
		}
		kept, last := 0, ""
		for _, r := range maps.regions {
			if r.path != last && r.path != procfs.MoreNames {
				kept += len(r.path)
			}
			last = r.path
		}
		if kept > procfs.DefaultNameRoom || (maps.names.Cut != 0) != (what == "many files") {
			t.Errorf("%s: %d bytes of paths, %d cut", what, kept, maps.names.Cut)
		}
	}
}

// TestNamesSurvive asks for names after the process has exited and its file
// was deleted and replaced; what is expected was asked of addr2line before.
func TestNamesSurvive(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	c := start(t, program)
	addrs := sampleCode(t, program)
	want := addr2line(t, program, addrs)
	bias := c.address(t, 0) - symbolValue(t, program, "plain")
	s, r := c.space(t), newResolver(t, Options{})
	c.stop()
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("another file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(0); !errors.Is(err, ErrExited) {
		t.Errorf("Refresh after the exit: %v, want ErrExited", err)
	}
	for _, a := range addrs {
		got := frameLines(r.Frames(s, []uint64{a + bias}, false))
		if !sameFrames(got, want[a]) {
			t.Fatalf("%#x: %q, addr2line said %q", a, got, want[a])
		}
	}
}

func TestNoSuchProcess(t *testing.T) {
	if _, err := NewSpace("/proc", 1<<30); !errors.Is(err, ErrExited) {
		t.Errorf("got %v, want ErrExited", err)
	}
}

// TestUnloadedPlugin names a function of an object after dlclose, by its most
// telling alias.
func TestUnloadedPlugin(t *testing.T) {
	plugin := compile(t, "plugin.c", "-O2", "-g", "-shared", "-fPIC", "-Wl,--version-script=testdata/plugin.map")
	c := start(t, compile(t, "loader.c", "-O2"), plugin)
	addr := c.address(t, 0)
	s, r := c.space(t), newResolver(t, Options{})
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	c.read(t)
	if err := os.Remove(plugin); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(0); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.current {
		if m.path == plugin {
			t.Fatal("the plugin is still mapped: dlclose did not unload it")
		}
	}
	if got := r.Function(s, addr); got != "plugin_work" {
		t.Errorf("Function: %q, want plugin_work", got)
	}
	f := r.Frames(s, []uint64{addr}, false)[0]
	if f.Function != "plugin_work" || filepath.Base(f.File) != "plugin.c" || f.Line != 2 || f.Module != plugin {
		t.Errorf("Frames: %+v, want plugin_work at plugin.c:2 in %s", f, plugin)
	}
}

// procTree makes a procfs of one process, 42, that maps the code of program
// at its own address, with another root directory and no map_files.
func procTree(t *testing.T, program, inRoot string, inode uint64, deleted string) (proc, root string) {
	t.Helper()
	proc, root = t.TempDir(), t.TempDir()
	copyFile(t, program, filepath.Join(root, inRoot))
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, inRoot), &st); err != nil {
		t.Fatal(err)
	}
	if inode == 0 {
		inode = st.Ino
	}
	e, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var maps strings.Builder
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			fmt.Fprintf(&maps, "%x-%x r-xp %08x %02x:%02x %d %s%s\n", p.Vaddr, p.Vaddr+(p.Memsz+0xfff)&^0xfff, p.Off,
				unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), inode, inRoot, deleted)
		}
	}
	dir := filepath.Join(proc, "42")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(maps.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	return proc, root
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := proctest.WriteProgram(to, data); err != nil {
		t.Fatal(err)
	}
}

// TestOtherRoot finds program and debug file below the root of the process,
// where the debug file is behind an absolute symbolic link.
func TestOtherRoot(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id=0x0123456789abcdef")
	stripped := filepath.Join(t.TempDir(), "stripped")
	tool(t, "objcopy", "--strip-all", program, stripped)
	proc, root := procTree(t, stripped, "/app/server", 0, "")
	copyFile(t, program, filepath.Join(root, "/pool/server.debug"))
	link := filepath.Join(root, "/usr/lib/debug/.build-id/01/23456789abcdef.debug")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/pool/server.debug", link); err != nil {
		t.Fatal(err)
	}
	s, err := NewSpace(proc, 42)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := newResolver(t, Options{}).Frames(s, []uint64{symbolValue(t, program, "plain")}, false)
	last := f[len(f)-1]
	if last.Function != "plain" || filepath.Base(last.File) != "inlines.c" || last.Module != "/app/server" || last.BuildID != "0123456789abcdef" {
		t.Errorf("got %+v, want plain of inlines.c in /app/server with build ID 0123456789abcdef; warnings %q", last, s.Warnings())
	}
}

// TestReplacedFile must not take names from a file that is not the mapped one.
func TestReplacedFile(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	plain := symbolValue(t, program, "plain")
	for name, test := range map[string]struct {
		inode   uint64
		deleted string
	}{
		"another inode": {inode: 1},
		"deleted":       {deleted: " (deleted)", inode: 1},
	} {
		t.Run(name, func(t *testing.T) {
			proc, _ := procTree(t, program, "/app/server", test.inode, test.deleted)
			s, err := NewSpace(proc, 42)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f := newResolver(t, Options{}).Frames(s, []uint64{plain}, false)[0]
			if !strings.HasPrefix(f.Function, "0x") || f.Module != "/app/server" {
				t.Errorf("got %+v, want no name in /app/server", f)
			}
			if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "/app/server") {
				t.Errorf("warnings %q, want one on /app/server", w)
			}
		})
	}
}

// TestRetired keeps what went away, once each, within bounds, behind what is
// mapped now.
func TestRetired(t *testing.T) {
	s := &Space{root: -1}
	at := func(start uint64, path string) region { return region{start: start, end: start + 0x1000, path: path} }
	for range 10 {
		s.update([]region{at(0x1000, "a"), at(0x2000, "b"), at(0x5000, "")}, 1)
		s.update([]region{at(0x1000, "a")}, 1)
	}
	if gone := s.Unmapped(); gone == nil || !gone(0x2000) || !gone(0x2fff) || gone(0x1fff) || gone(0x3000) || gone(0x5000) {
		t.Error("unmapped are the bytes of b")
	}
	if len(s.retired) != 1 {
		t.Errorf("%d retired mappings after ten times the same, want 1", len(s.retired))
	}
	s.update([]region{at(0x1000, "a")}, 1)
	if s.Unmapped() != nil {
		t.Error("something is unmapped where nothing has changed")
	}
	s.update([]region{at(0x2800, "c")}, 1)
	for addr, want := range map[uint64]string{0x1000: "a", 0x1fff: "a", 0x2000: "b", 0x27ff: "b", 0x2800: "c", 0x37ff: "c"} {
		if m, ok := s.find(addr, Now); !ok || m.path != want {
			t.Errorf("%#x is in %q (%v), want %q", addr, m.path, ok, want)
		}
	}
	if m, ok := s.find(0x3800, Now); ok {
		t.Errorf("0x3800 is in %q, want nowhere", m.path)
	}
	for i := range uint64(2 * maxRetired) {
		s.update([]region{at(0x10000+i*0x1000, "d")}, 1)
	}
	if len(s.retired) != maxRetired {
		t.Errorf("%d retired mappings, want %d", len(s.retired), maxRetired)
	}
}

// TestMappedOverTime asks for what was mapped at an address when a stack was
// taken: in a process, and in a child that has what it had.
func TestMappedOverTime(t *testing.T) {
	plugin := func(path string) []region { return []region{{start: 0x1000, end: 0x2000, path: path}} }
	s := &Space{root: -1}
	s.update(plugin("a"), 10)
	s.update(nil, 20)
	s.update(plugin("b"), 30)
	child := &Space{root: -1, parent: s, forked: 25}
	for at, want := range map[uint64]string{5: "a", 25: "a", 35: "a"} {
		if m, ok := child.find(0x1000, at); !ok || m.path != want {
			t.Errorf("in a child that has mapped nothing there was %q (%v) at %d, want %q", m.path, ok, at, want)
		}
	}
	child.update(plugin("c"), 40)
	for at, want := range map[uint64][2]string{5: {"a", "a"}, 10: {"a", "a"}, 25: {"a", "a"}, 30: {"b", "a"}, 35: {"b", "a"}, 40: {"b", "c"}, Now: {"b", "c"}} {
		m, _ := s.find(0x1fff, at)
		c, _ := child.find(0x1fff, at)
		if m.path != want[0] || c.path != want[1] {
			t.Errorf("at %d there were %q and, in the child, %q, want %q", at, m.path, c.path, want)
		}
	}
}

// Anonymous code is a file's where it fills what two parts of that leave out, and nowhere else.
func TestMovedCodeIsItsFiles(t *testing.T) {
	const text = `400000-410000 r-xp 00001000 fe:01 77 /bin/x
410000-600000 r-xp 00000000 00:00 0
600000-610000 r-xp 00201000 fe:01 77 /bin/x
700000-710000 r-xp 00000000 fe:01 78 /lib/y
710000-720000 r-xp 00000000 00:00 0
720000-730000 r-xp 00030000 fe:01 78 /lib/y
730000-740000 r-xp 00000000 00:00 0
740000-750000 r-xp 00040000 fe:01 79 /lib/z
`
	got := regionsOf(t, text)
	want := region{start: 0x410000, end: 0x600000, offset: 0x11000, major: 0xfe, minor: 1, inode: 77, path: "/bin/x"}
	if len(got) != 8 || got[1] != want || got[4].inode != 0 || got[6].inode != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestInherit: a child whose fork becomes known after it was looked at has what its parent had until then. A fork that
// becomes known later holds, as the one before was of another process of its ID.
func TestInherit(t *testing.T) {
	plugin := func(path string) []region { return []region{{start: 0x1000, end: 0x2000, path: path}} }
	other, parent, child := &Space{root: -1}, &Space{root: -1}, &Space{root: -1}
	other.update(plugin("other"), 5)
	parent.update(plugin("a"), 10)
	child.update(plugin("b"), 0)
	child.Inherit(other, 8, 30)
	child.Inherit(parent, 20, 30)
	for at, want := range map[uint64]string{15: "a", 25: "a", 30: "b", Now: "b"} {
		if m, ok := child.find(0x1000, at); !ok || m.path != want {
			t.Errorf("at %d there was %q (%v), want %q", at, m.path, ok, want)
		}
	}
}

// TestNoProcessIsItsOwnAncestor, however forks are told; and of a long line the nearest name what they can.
func TestNoProcessIsItsOwnAncestor(t *testing.T) {
	line := make([]*Space, 3*maxAncestors)
	for i := range line {
		line[i] = &Space{root: -1}
		line[i].update([]region{{start: uint64(i) << 12, end: uint64(i+1) << 12, path: strconv.Itoa(i)}}, 1)
	}
	for i := range len(line) - 1 {
		line[i].Inherit(line[i+1], 5, 9) // each knows its parent before that knows its own
	}
	line[2].Inherit(line[0], 5, 9)
	line[2].Inherit(line[2], 5, 9)
	if got, _ := line[2].inherits(); got != line[3] {
		t.Error("a process inherits from its child, or from itself")
	}
	for _, i := range []int{0, 1, maxAncestors} {
		if m, ok := line[0].find(uint64(i)<<12, 5); !ok || m.path != strconv.Itoa(i) {
			t.Errorf("what its %dth ancestor had mapped is %q (%v)", i, m.path, ok)
		}
	}
	if _, ok := line[0].find((maxAncestors+1)<<12, 5); ok {
		t.Errorf("names are looked for through more than %d ancestors", maxAncestors)
	}
}

// TestLeasedFile is not waited for, and has names once its lease is gone.
func TestLeasedFile(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-Wl,--build-id")
	proc, root := procTree(t, program, "/app/server", 0, "")
	signal.Ignore(unix.SIGIO) // by which the kernel asks for the lease
	t.Cleanup(func() { signal.Reset(unix.SIGIO) })
	f, err := os.Open(filepath.Join(root, "/app/server"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	setLease := func(kind int) {
		t.Helper()
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, kind); err != nil {
			t.Fatal(err)
		}
	}
	setLease(unix.F_WRLCK)
	s, err := NewSpace(proc, 42)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.current[0].file != nil {
		t.Fatal("the file was opened although another has a lease on it")
	}
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "/app/server") || !strings.Contains(w[0], "a process holds a lease on it") {
		t.Errorf("warnings %q, want one that names the file and says why", w)
	}
	setLease(unix.F_UNLCK)
	if err := s.Refresh(0); err != nil {
		t.Fatal(err)
	}
	if s.current[0].file == nil {
		t.Error("the file was not opened once the lease was gone")
	}
}
