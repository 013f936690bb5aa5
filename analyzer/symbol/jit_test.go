package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// appendTo adds text to a file, which is made if need be.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestPerfMap names code of a JIT compiler as it goes on writing its map.
func TestPerfMap(t *testing.T) {
	c := start(t, compile(t, "jit.c"))
	code := c.address(t, 0)
	path := fmt.Sprintf("/tmp/perf-%d.map", c.cmd.Process.Pid)
	t.Cleanup(func() { os.Remove(path) })
	s, r := c.space(t), newResolver(t, Options{})
	s.jit.every = 0
	check := func(addr uint64, want string) {
		t.Helper()
		f := r.Frames(s, []uint64{addr}, false)
		if len(f) != 1 || f[0].Function != want || f[0].Module != anonymous {
			t.Errorf("%#x: %+v, want %s", addr-code, f, want)
		}
		if got := r.Function(s, addr); got != want {
			t.Errorf("%#x: Function %s, want %s", addr-code, got, want)
		}
	}
	check(code, anonymous)
	appendTo(t, path, fmt.Sprintf("%x 10 first\nnonsense\n0x%x 0x20 LazyCompile:~f file.js:1\n%x 8 half", code, code+0x40, code+0x100))
	check(code+0xf, "first")
	check(code+0x10, anonymous)
	check(code+0x5f, "LazyCompile:~f file.js:1")
	check(code+0x100, anonymous)
	// The code at the start was thrown away and other code put there.
	appendTo(t, path, fmt.Sprintf(" written\n%x 18 other\n", code+8))
	check(code+0x107, "half written")
	check(code+7, "first")
	check(code+8, "other")
	check(code+0x1f, "other")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%x 10 anew\n", code), 0o600); err != nil {
		t.Fatal(err)
	}
	check(code, "anew")
	check(code+0x40, anonymous)
	c.stop()
	check(code, "anew")
	if w := append(s.Warnings(), r.Warnings()...); len(w) > 0 {
		t.Errorf("warnings %q", w)
	}
}

// TestPerfMapOfOthers must not be read through a link out of the process's
// reach, nor as anything but a regular file.
func TestPerfMapOfOthers(t *testing.T) {
	c := start(t, compile(t, "jit.c"))
	path := fmt.Sprintf("/tmp/perf-%d.map", c.cmd.Process.Pid)
	t.Cleanup(func() { os.Remove(path) })
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s, r := c.space(t), newResolver(t, Options{})
	if f := r.Frames(s, []uint64{c.address(t, 0)}, false); f[0].Function != anonymous {
		t.Errorf("got %+v, want no name", f)
	}
}

// TestPerfMapFitsUser: what belongs to another user, or what only root may read, speaks for nobody's process.
func TestPerfMapFitsUser(t *testing.T) {
	for _, test := range []struct {
		owner, mode, user uint32
		fits              bool
	}{
		{1000, 0o600, 1000, true}, {1001, 0o644, 1000, false}, {0, 0o644, 1000, true}, {0, 0o640, 1000, false},
		{0, 0o600, 0, true}, {1000, 0o644, 0, false},
	} {
		st := unix.Stat_t{Uid: test.owner, Mode: unix.S_IFREG | test.mode}
		if err := fitMap(st, test.user); (err == nil) != test.fits {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestLinkForPerfMap: a link to a large file of root's counts for the user who made it, and not for root.
func TestLinkForPerfMap(t *testing.T) {
	const user = 1000
	proc, root := t.TempDir(), t.TempDir()
	appendTo(t, filepath.Join(proc, "status"), "NSpid:\t7\n")
	if err := os.Symlink(root, filepath.Join(proc, "root")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(root, "large"), "1000 10 linked\n")
	if err := os.Chmod(filepath.Join(root, "large"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/large", filepath.Join(root, "tmp/perf-7.map")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(proc, user, user); err != nil {
		t.Fatal(err)
	}
	m := perfMap{proc: proc, warnings: &warnings{}}
	defer m.close()
	if name := m.name(0x1008); name != "linked" || m.file.owner != user {
		t.Errorf("the name is %q, of a map that counts for %+v", name, m.file)
	}
}

// TestInnermostPID takes the PID of the namespace that the process is in.
func TestInnermostPID(t *testing.T) {
	proc := t.TempDir()
	appendTo(t, filepath.Join(proc, "status"), "Name:\tx\nPid:\t100\nNSpid:\t100\t20\t3\nVmPeak:\t1 kB\n")
	if pid, err := innermostPID(proc); err != nil || pid != "3" {
		t.Errorf("got %q, %v; want 3", pid, err)
	}
}

// TestVDSO compares a name with what readelf finds in the vDSO.
func TestVDSO(t *testing.T) {
	c := start(t, compile(t, "jit.c"))
	s, r := c.space(t), newResolver(t, Options{})
	for _, m := range s.current {
		if m.path != vdsoPath {
			continue
		}
		image := filepath.Join(t.TempDir(), "vdso.so")
		data := make([]byte, m.end-m.start)
		if err := readOwnVDSO(data); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(image, data, 0o600); err != nil {
			t.Fatal(err)
		}
		compareWithReadelf(t, r, s, m.start, image)
		return
	}
	t.Error("the child has no [vdso]")
}

// compareWithReadelf looks each function of the image up, which is mapped at
// base; several may have the same address.
func compareWithReadelf(t *testing.T, r *Resolver, s *Space, base uint64, image string) {
	t.Helper()
	names := map[uint64][]string{}
	for line := range strings.Lines(tool(t, "readelf", "-W", "--dyn-syms", image)) {
		if fields := strings.Fields(line); len(fields) >= 8 && fields[3] == "FUNC" {
			value, err := strconv.ParseUint(fields[1], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			name, _, _ := strings.Cut(fields[7], "@")
			names[value] = append(names[value], name)
		}
	}
	if len(names) == 0 {
		t.Fatal("readelf finds no function in the vDSO")
	}
	for value, want := range names {
		f := r.Frames(s, []uint64{base + value}, false)
		if len(f) != 1 || !slices.Contains(want, f[0].Function) || f[0].Module != vdsoPath || f[0].Offset != value {
			t.Errorf("got %+v, want one of %s at %#x of [vdso]", f, want, value)
		}
	}
}

// FuzzPerfMap reads damaged maps.
func FuzzPerfMap(f *testing.F) {
	f.Add("1000 10 a\n0x1008 0x8 b c\n", uint64(0x1008))
	f.Fuzz(func(t *testing.T, text string, addr uint64) {
		defer costtest.Bound(t)()
		table := perfTable{files: map[perfID]*perfFile{}, owners: map[uint32]int64{}}
		m := table.get(fileKey{}, 1)
		if err := m.refresh(strings.NewReader(text), int64(len(text)), &table, time.Time{}); err != nil {
			t.Fatal(err)
		}
		m.name(addr)
		if limit := int64(len(text)) * (1 + perfSymbolSize/4); m.held > limit {
			t.Errorf("%d bytes held of %d", m.held, len(text))
		}
	})
}

// TestCodeInMemoryFile: code that a program wrote into a file in memory has no names, and that is no trouble.
// A broken ELF file there is one.
func TestCodeInMemoryFile(t *testing.T) {
	for text, warnings := range map[string]int{"\xc3 is code": 0, "\x7fELF and no more": 1} {
		fd, err := unix.MemfdCreate("code", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(fd) }()
		if _, err := unix.Write(fd, append([]byte(text), make([]byte, 4096)...)); err != nil {
			t.Fatal(err)
		}
		code, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(code) }()
		s, err := NewSpace("/proc", os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := newResolver(t, Options{})
		f := r.Frames(s, []uint64{uint64(uintptr(unsafe.Pointer(unsafe.SliceData(code)))) + 8}, false)
		if got := append(s.Warnings(), r.Warnings()...); len(got) != warnings || len(f) != 1 {
			t.Errorf("%q: frames %+v, warnings %q, want %d", text, f, got, warnings)
		}
	}
}
