//go:build linux && !viewer

package goheap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// poke writes words into a program's memory.
func poke(t *testing.T, s *subject, at uint64, words ...uint64) {
	t.Helper()
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", s.cmd.Process.Pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	if _, err := f.WriteAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// A program may write into its own list whatever it likes.
func TestReadOfAForgedList(t *testing.T) {
	path := build(t, "", "program")
	for _, c := range []struct {
		name  string
		at    uint64 // within the first bucket
		words func(head uint64) []uint64
	}{
		{"a circle", 8, func(head uint64) []uint64 { return []uint64{head} }},
		{"leads to nothing", 8, func(uint64) []uint64 { return []uint64{16} }},
		{"leads beyond all addresses", 8, func(uint64) []uint64 { return []uint64{1<<64 - 8} }},
		{"another type", 16, func(uint64) []uint64 { return []uint64{2} }},
		{"a stack without end", 40, func(uint64) []uint64 { return []uint64{1 << 60} }},
		{"no stack", 40, func(uint64) []uint64 { return []uint64{0} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, path)
			r := s.open()
			head, ok := ofMemory(memory{r.pid}, memoryRoom).u64(r.at.buckets + r.bias())
			if !ok || head == 0 {
				t.Fatal("the list was not found")
			}
			poke(t, s, head+c.at, c.words(head)...)
			if p, err := r.Read(); !errors.Is(err, errBuckets) {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}

// Figures that a program makes up stay bounded, and addresses outside of its code have no names.
func TestReadOfForgedFigures(t *testing.T) {
	s := start(t, build(t, "", "program"))
	s.ask("gc")
	r := s.open()
	head, _ := ofMemory(memory{r.pid}, memoryRoom).u64(r.at.buckets + r.bias())
	depth, _ := ofMemory(memory{r.pid}, memoryRoom).u64(head + 40)
	poke(t, s, head+bucketHeader, 1<<64-1) // the innermost address
	poke(t, s, head+bucketHeader+8*depth, 1<<64-1, 0, 1<<64-1, 0)
	p := read(t, r)
	found := false
	for _, site := range p.Sites {
		if site.Addrs[0] == 1<<64-1 {
			found = true
			if name := r.Frames(site.Addrs); site.InUse.Bytes != 1<<44 || site.InUse.Count != 1<<44 || len(name) == 0 {
				t.Errorf("%+v %v", site, name)
			}
		}
	}
	if !found {
		t.Error("the forged bucket is not there")
	}
}

// What is no Go program, or has no profile, says so.
func TestOpenOfOtherPrograms(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	if _, err := Open(sleep.Process.Pid); !errors.Is(err, ErrNotGo) {
		t.Errorf("sleep: %v", err)
	}
	s := start(t, build(t, "", "plain"))
	if _, err := s.open().Read(); !errors.Is(err, ErrDisabled) {
		t.Errorf("a program that cannot ask for its profile: %v", err)
	}
}

// Versions are those that are known; what says so itself is not trusted beyond that.
func TestGoVersion(t *testing.T) {
	for text, minor := range map[string]string{"go1.20": "20", "go1.26.8": "26", "devel go1.26-abc": "26", "go1.24.1 X:nocoverageredesign": "24", "go2.20": "", "1.26": "", "": "", "go1.2666": ""} {
		got := ""
		if m := goVersion.FindStringSubmatch(text); m != nil {
			got = m[1]
		}
		if got != minor {
			t.Errorf("%q: %q, want %q", text, got, minor)
		}
	}
}

// FuzzTable: whatever a file has for pclntab, names are bounded and so is the work.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8, 1}, uint64(0))
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	file, err := os.Open(self)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	if p, err := newProgram(file); err == nil {
		part := make([]byte, 32<<10)
		if p.file.read(part, p.table.base) {
			f.Add(part, uint64(0x1000))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, pc uint64) {
		defer costtest.Bound(t)()
		table, err := newTable(ofFile(bytesAt(data), fileRoom), 0)
		if err != nil {
			return
		}
		table.inline = 64
		if frame, ok := table.frame(pc); ok && (len(frame.Function) > maxText || len(frame.File) > maxText) {
			t.Errorf("a name of %d bytes", len(frame.Function))
		}
	})
}

type bytesAt []byte

func (b bytesAt) ReadAt(into []byte, at int64) (int, error) {
	if at < 0 || at >= int64(len(b)) {
		return 0, os.ErrInvalid
	}
	return copy(into, b[at:]), nil
}
