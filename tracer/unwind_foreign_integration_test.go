//go:build integration

package tracer

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// libraryOf returns the C library that a process maps.
func libraryOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 6 && strings.HasPrefix(filepath.Base(fields[5]), "libc.so") {
			return fields[5]
		}
	}
	t.Fatalf("process %d maps no C library", pid)
	return ""
}

// forge writes a file of the same size, build ID and code as another one, whose functions have no call frame
// instructions of their own: all of its rows are wrong.
func forge(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := e.Section(".eh_frame")
	frames := data[s.Offset : s.Offset+s.Size]
	functions := 0
	for len(frames) >= 8 {
		n := binary.LittleEndian.Uint32(frames)
		if n == 0 || int(n) > len(frames)-4 {
			break
		}
		body := frames[4 : 4+n]
		if binary.LittleEndian.Uint32(body) != 0 { // its start and size in 4 bytes each, then augmentation data
			clear(body[13+body[12]:])
			functions++
		}
		frames = frames[4+n:]
	}
	if functions == 0 {
		t.Fatalf("%s has no functions", path)
	}
	return writeLibrary(t, data)
}

func writeLibrary(t *testing.T, data []byte) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.so")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// manyRules is a library whose function has n rules that no other has: frames of unusual sizes, from the first on.
func manyRules(t *testing.T, first, n int) string {
	t.Helper()
	le := binary.LittleEndian
	cie := "\x01\x00\x01\x78\x10\x0c\x07\x08\x90\x01"
	m := elf.EM_X86_64
	if hostMachine(t) == elf.EM_AARCH64 {
		cie, m = "\x01\x00\x01\x78\x1e\x0c\x1f\x00", elf.EM_AARCH64
	}
	frames := append(le.AppendUint32(le.AppendUint32(nil, uint32(4+len(cie))), 0), cie...)
	at := len(frames)
	frames = append(le.AppendUint32(le.AppendUint32(frames, 0), uint32(at+4)), make([]byte, 16)...)
	le.PutUint64(frames[at+8:], 0x1000)
	le.PutUint64(frames[at+16:], 1<<20)
	for i := range n {
		frames = append(binary.AppendUvarint(append(frames, 0x0e), uint64(1<<20+16*(first+i))), 0x41)
	}
	le.PutUint32(frames[at:], uint32(len(frames)-at-4))
	names := "\x00.shstrtab\x00.eh_frame\x00"
	const headers = 64 + 56 + 3*64
	var out bytes.Buffer
	for _, v := range []any{
		elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(m), Version: 1, Phoff: 64, Shoff: 64 + 56,
			Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 3, Shstrndx: 1,
		},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: 1 << 24, Memsz: 1 << 24},
		[]elf.Section64{
			{}, {Name: 1, Type: uint32(elf.SHT_STRTAB), Off: headers, Size: uint64(len(names))},
			{Name: 11, Type: uint32(elf.SHT_PROGBITS), Off: headers + uint64(len(names)), Size: uint64(len(frames)), Addr: 1 << 25},
		},
		[]byte(names), frames,
	} {
		if err := binary.Write(&out, le, v); err != nil {
			t.Fatal(err)
		}
	}
	return writeLibrary(t, out.Bytes())
}

func hostMachine(t *testing.T) elf.Machine {
	t.Helper()
	e, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.Machine
}

// mapCode maps a file's first page in this process, as code.
func mapCode(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
}

// victimStacks compares the stacks of a program with its own. What comes before is in the kernel before it is attached to.
func victimStacks(t *testing.T, before func(tr *Tracer, victim *target)) {
	t.Helper()
	victim := start(t, nil, "stacks_O2")
	tr, err := New(Config{StackDepth: MaxStackDepth, Unwind: UnwindDwarf})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	before(tr, victim)
	pid := victim.cmd.Process.Pid
	if err := tr.Attach(pid, discover(t, pid)); err != nil {
		t.Fatal(err)
	}
	got := make(chan sizes, 1)
	go func() { got <- stacksBySize(tr) }()
	victim.proceed()
	own := ownStacks(t, tr, victim)
	markStrayed(t, pid, own)
	if err := tr.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	victim.finish()
	compareStacks(t, own, <-got)
}

// A file that claims another one's build ID and size, and has its code, has its own table, and the other one its own.
func TestForgedBuildIDNamesNoTable(t *testing.T) {
	t.Parallel()
	victimStacks(t, func(tr *Tracer, victim *target) {
		mapCode(t, forge(t, libraryOf(t, victim.cmd.Process.Pid)))
		if err := tr.ReloadMaps(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	})
}

// Files of equal content share a table, wherever they lie.
func TestCopiedFileSharesItsTable(t *testing.T) {
	t.Parallel()
	victimStacks(t, func(tr *Tracer, victim *target) {
		path := libraryOf(t, victim.cmd.Process.Pid)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first := loadFor(t, tr, root, path)
		copied := loadFor(t, tr, account{uid: 4242}, writeLibrary(t, data))
		if first.codeFile != copied.codeFile {
			t.Error("a copy has a table of its own")
		}
	})
}

// loadFor loads the tables of a file as one that a process of the account maps.
func loadFor(t *testing.T, tr *Tracer, a account, path string) use {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := tr.updater.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.tables.file(os.Getpid(), a, f)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Users whose files have thousands of rules each take no room that root's files, or another user's, need; and the
// files that have too many are said, each.
func TestRulesOfOthersTakeNoRoom(t *testing.T) {
	t.Parallel()
	const users, files = 10, 2
	victimStacks(t, func(tr *Tracer, victim *target) {
		for i := range users * files {
			path := manyRules(t, 4000*i, 4000)
			if err := os.Chown(path, 4242+i/files, -1); err != nil {
				t.Fatal(err)
			}
			u := loadFor(t, tr, account{uid: uint32(4242 + i/files)}, path)
			if !u.partial || !strings.Contains(u.problem, "unwinding rules have no room") {
				t.Errorf("file %d: %q", i, u.problem)
			}
			if i == 0 && loadFor(t, tr, account{uid: 4300}, path).codeFile == u.codeFile {
				t.Error("a table that lacks rules for one user's lack of room is another one's")
			}
		}
		pid := victim.cmd.Process.Pid
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{exe, libraryOf(t, pid)} {
			if u := loadFor(t, tr, account{uid: 4343}, path); u.problem != "" || !slices.ContainsFunc(u.segments, func(s codeSegment) bool { return s.slot != 0 }) {
				t.Errorf("%s of another user: %q", path, u.problem)
			}
		}
		if problems := tr.UnwindProblems(); len(problems) != 0 {
			t.Errorf("%q", problems)
		}
	})
}
