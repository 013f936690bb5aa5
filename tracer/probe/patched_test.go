package probe

import (
	"bytes"
	"os"
	"path/filepath"
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
