//go:build linux && !viewer

package goheap

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// image reads a file as it will be mapped, before anything runs.
type image struct{ *program }

func (m image) ReadAt(into []byte, at int64) (int, error) {
	offset, ok := m.offset(uint64(at))
	if !ok {
		return 0, os.ErrInvalid
	}
	return m.os.ReadAt(into, int64(offset))
}

// By the code of the runtime's functions, without a look at symbols, the same variables are found as by symbols.
func TestLocateByCodeIsLocateBySymbols(t *testing.T) {
	for _, root := range roots() {
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(filepath.Base(root)+" "+arch, func(t *testing.T) {
				p := openFile(t, cross(t, root, arch))
				m, err := p.findModule(ofFile(image{p}, memoryRoom))
				if err != nil {
					t.Fatal(err)
				}
				p.table.text = m.text
				want, ok := p.locateBySymbols()
				if !ok {
					t.Fatal("no symbols")
				}
				got, err := p.locateByCode(m)
				if want.by = byCode; err != nil || got != want {
					t.Errorf("%+v, %v, want %+v", got, err, want)
				}
				if got := p.elf.Machine; arch == "arm64" && got != elf.EM_AARCH64 {
					t.Errorf("the program is for %v", got)
				}
			})
		}
	}
}

func openFile(t *testing.T, path string) *program {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	p, err := newProgram(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cross compiles the program for a machine.
func cross(t *testing.T, root, arch string) string {
	t.Helper()
	t.Setenv("GOARCH", arch)
	t.Setenv("CGO_ENABLED", "0")
	return build(t, root, "program")
}
