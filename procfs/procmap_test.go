package procfs

import (
	"bytes"
	"debug/elf"
	"os/exec"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// TestFindVMA looks up each mapping of a child, by the ioctl and by the text.
func TestFindVMA(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p := openLive(t, cmd.Process.Pid)
	for {
		if exe, err := p.Exe(); err != nil || bytes.Contains([]byte(exe), []byte("sleep")) || bytes.Contains([]byte(exe), []byte("busybox")) {
			break
		}
	}
	proctest.Stop(t, cmd.Process.Pid)
	found := 0
	err := p.Maps(func(v *VMA) {
		if v.Start >= 1<<63 {
			return // [vsyscall] is in the text alone
		}
		for name, find := range map[string]func(uint64, func(*VMA, []byte)) (bool, error){"FindVMA": p.FindVMA, "text": p.searchVMA} {
			ok, err := find(v.End-1, func(got *VMA, id []byte) {
				found++
				if got.Start != v.Start || got.End != v.End || got.Perms != v.Perms || got.Kind != v.Kind || got.Offset != v.Offset ||
					got.Inode != v.Inode || got.DevMajor != v.DevMajor || got.DevMinor != v.DevMinor || string(got.Path) != string(v.Path) {
					t.Errorf("%s: %+v; maps: %+v", name, *got, *v)
				}
				if len(id) > 0 && v.Kind == KindFile {
					checkBuildID(t, string(v.Path), id)
				}
			})
			if !ok || err != nil {
				t.Errorf("%s of %x: %v, %v", name, v.End-1, ok, err)
			}
		}
	})
	if err != nil || found < 10 {
		t.Errorf("%d found, %v", found, err)
	}
	if ok, err := p.FindVMA(4096, func(*VMA, []byte) { t.Error("something at 4096") }); ok || err != nil {
		t.Errorf("an address that is not mapped: %v, %v", ok, err)
	}
}

func checkBuildID(t *testing.T, path string, id []byte) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		return // no ELF file, such as a locale
	}
	defer func() { _ = f.Close() }()
	if s := f.Section(".note.gnu.build-id"); s != nil {
		if note, err := s.Data(); err != nil || !bytes.HasSuffix(note, id) {
			t.Errorf("%s: build ID %x; its note: %x, %v", path, id, note, err)
		}
	}
}

func TestFindVMAInFixture(t *testing.T) {
	p := openFixture(t, "6.18", 4001)
	var heap VMA
	if err := p.Maps(func(v *VMA) {
		if v.Kind == KindHeap {
			heap = *v
		}
	}); err != nil {
		t.Fatal(err)
	}
	ok, err := p.FindVMA(heap.Start, func(v *VMA, id []byte) {
		if v.Kind != KindHeap || v.End != heap.End || id != nil {
			t.Errorf("%+v", v)
		}
	})
	if !ok || err != nil {
		t.Error(ok, err)
	}
}
