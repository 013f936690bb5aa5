package probe

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// code is an instruction of each kind, a page of them.
func code(t *testing.T) (file *os.File, text []byte) {
	t.Helper()
	text = bytes.Repeat([]byte{0x55, 0x48, 0x89, 0xe5}, 1024)
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file, text
}

// TestUnchanged: what is not the file's is noticed wherever a jump over a probe's place would begin, and breakpoints of probes
// are not.
func TestUnchanged(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("breakpoints are amd64's")
	}
	const start, entry, place = 0x10000, 0x100, 0x140
	for name, c := range map[string]struct {
		at       int
		bytes    []byte
		debugged bool
		want     error
	}{
		"as in the file":                  {at: 0, bytes: nil},
		"a jump at the entry":             {at: entry, bytes: []byte{0xe9, 1, 2, 3, 4}, want: ErrPatched},
		"a long jump at the entry":        {at: entry, bytes: []byte{0xff, 0x25, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, want: ErrPatched},
		"a jump at the place":             {at: place, bytes: []byte{0xeb, 7}, want: ErrPatched},
		"the end of a jump at the place":  {at: place - 3, bytes: []byte{0xe9, 1, 2, 3, 4}, want: ErrPatched},
		"a probe":                         {at: place, bytes: []byte{0xcc}},
		"a probe at the entry":            {at: entry, bytes: []byte{0xcc}},
		"a debugger's breakpoint":         {at: place, bytes: []byte{0xcc}, debugged: true, want: ErrPatched},
		"a debugger without a breakpoint": {at: 0, bytes: nil, debugged: true},
		"elsewhere":                       {at: 0x400, bytes: []byte{0xe9, 1, 2, 3, 4}},
	} {
		file, text := code(t)
		memory := append(make([]byte, start), text...)
		copy(memory[start+c.at:], c.bytes)
		o := Object{
			File: file, Text: []Range{{start, start + uint64(len(text)), 0}},
			Probes: []Probe{{Name: "free", Entry: entry, Offset: place}},
		}
		if err := o.unchanged(bytes.NewReader(memory), c.debugged); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestUnmappedCodeIsNotPatched: a process may have executed another program since its mappings were read. What is not
// there any more was changed by nobody.
func TestUnmappedCodeIsNotPatched(t *testing.T) {
	file, text := code(t)
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	const lowest = 0x1000 // no program has anything in its first pages
	o := Object{
		File: file, Text: []Range{{lowest, lowest + uint64(len(text)), 0}},
		Probes: []Probe{{Name: "free", Entry: 0x100, Offset: 0x140}},
	}
	if err := o.unchanged(memory, false); err != nil {
		t.Errorf("code that is not mapped: %v, want nil", err)
	}
}
