package symbol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dwz moves what two programs' DWARF has in common into a file of its own. It
// returns the first program and that file.
func dwz(t *testing.T, compileFlags []string, flags ...string) (program, common string) {
	t.Helper()
	dir := t.TempDir()
	program, common = filepath.Join(dir, "program"), filepath.Join(dir, "common.debug")
	other := filepath.Join(dir, "other")
	built := compile(t, "inlines.cc", append([]string{"-O2", "-Wl,--build-id"}, compileFlags...)...)
	copyFile(t, built, program)
	copyFile(t, built, other)
	tool(t, "dwz", append(append([]string{"-m", common}, flags...), program, other)...)
	return program, common
}

// TestAltFile compares with addr2line, which reads the common file, too,
// where it knows how; else with what it says of the same code before.
func TestAltFile(t *testing.T) {
	for name, test := range map[string]struct{ compile, dwz []string }{
		"DWARF 4":              {[]string{"-gdwarf-4"}, nil},
		"DWARF 5":              {[]string{"-gdwarf-5"}, nil},
		"DWARF 5's .debug_sup": {[]string{"-gdwarf-5"}, []string{"--dwarf-5"}},
		"relative name":        {[]string{"-gdwarf-4"}, []string{"-r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, common := dwz(t, test.compile, test.dwz...)
			if st, err := os.Stat(common); err != nil || st.Size() < 2000 {
				t.Fatalf("dwz made no common file worth the name (%v)", err)
			}
			judged := compile(t, "inlines.cc", append([]string{"-O2", "-Wl,--build-id"}, test.compile...)...)
			compareWithAddr2line(t, program, judged, start(t, program))
		})
	}
}

// TestAltFileByBuildID finds the file in a directory of debug files, and
// warns where there is none.
func TestAltFileByBuildID(t *testing.T) {
	program, common := dwz(t, []string{"-gdwarf-5"})
	addrs := sampleCode(t, program)[:300]
	want, warnings, _ := lookUp(t, program, addrs, Options{})
	if len(warnings) > 0 {
		t.Fatalf("warnings: %q", warnings)
	}
	fields := strings.Fields(tool(t, "readelf", "-n", common))
	id := ""
	for i, f := range fields[:len(fields)-1] {
		if f == "ID:" {
			id = fields[i+1]
		}
	}
	dir := t.TempDir()
	target := filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(common, target); err != nil {
		t.Fatal(err)
	}
	same := func(a, b []*Frame) bool {
		return strings.Join(frameLines(a), "\n") == strings.Join(frameLines(b), "\n")
	}
	if got, warnings, _ := lookUp(t, program, addrs, Options{DebugDirs: []string{dir}}); !same(got, want) || len(warnings) > 0 {
		t.Errorf("by build ID the answers differ; warnings %q", warnings)
	}
	got, warnings, _ := lookUp(t, program, addrs, Options{DebugDirs: []string{t.TempDir()}})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "dwz") {
		t.Errorf("warnings %q without the file, want one", warnings)
	}
	if same(got, want) || len(got) != len(want) {
		t.Error("without the file, there should be as many frames, some without a name")
	}
}
