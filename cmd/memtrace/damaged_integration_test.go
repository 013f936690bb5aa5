//go:build integration

package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// damaged is a copy of a test program with nonsense in the middle of a section,
// which the program itself has no need of.
func damaged(t *testing.T, name string, sections ...string) string {
	t.Helper()
	text, err := os.ReadFile(testProgram(name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(testProgram(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, section := range sections {
		s := f.Section(section)
		if s == nil || s.Type == elf.SHT_NOBITS || s.FileSize < 64 {
			t.Fatalf("%s has no %s to damage", name, section)
		}
		for i := s.FileSize / 8; i < s.FileSize; i++ {
			text[s.Offset+i] = byte(i*37 ^ i>>3 | 0x80)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := proctest.WriteProgram(path, text); err != nil {
		t.Fatal(err)
	}
	return path
}

func warned(r *report.Report, of, about string) bool {
	for _, w := range r.Warnings {
		if strings.Contains(w, of) && strings.Contains(w, about) {
			return true
		}
	}
	return false
}

// TestDamagedFile traces a program whose call frame information and DWARF are
// nonsense: it runs to its end, its allocations are all counted, its functions
// keep the names of its symbol table, and memtrace says what it could not read.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	path := damaged(t, "two_threads", ".eh_frame", ".debug_info", ".debug_line")
	r, out := runTraced(t, []string{"XDG_CACHE_HOME=" + t.TempDir()}, path, "run")
	checkSites(t, r, r.Processes[0].PID, parseAnswer(t, strings.TrimSpace(out)))
	if !warned(r, path, "call frame information") {
		t.Errorf("no warning of the call frame information: %q", r.Warnings)
	}
	if !warned(r, path, "debug") && !warned(r, path, "DWARF") {
		t.Errorf("no warning of the DWARF: %q", r.Warnings)
	}
}
