package symbol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSplitDWARF compares programs whose DWARF is split with what addr2line
// says of the same code in one piece.
func TestSplitDWARF(t *testing.T) {
	for _, test := range []struct {
		name, source string
		flags        []string
		finish       func(t *testing.T, program string)
	}{
		{"DWARF 5, .dwo", "inlines.c", []string{"-gdwarf-5"}, nil},
		{"DWARF 4, .dwo", "inlines.c", []string{"-gdwarf-4"}, nil},
		{"C++ DWARF 5, .dwo", "inlines.cc", []string{"-gdwarf-5"}, nil},
		{"DWARF 4, sections, .dwo", "inlines.c", []string{"-gdwarf-4", "-ffunction-sections"}, nil},
		{"DWARF 5, compressed .dwo", "inlines.c", []string{"-gdwarf-5"}, compressSplit},
		{"DWARF 5, .dwp", "inlines.c", []string{"-gdwarf-5"}, packSplit},
		{"C++ DWARF 4, .dwp", "inlines.cc", []string{"-gdwarf-4"}, packSplit},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			flags := append([]string{"-O2", "-Wl,--build-id"}, test.flags...)
			program := compile(t, test.source, append(flags, "-gsplit-dwarf")...)
			if test.finish != nil {
				test.finish(t, program)
			}
			compareWithAddr2line(t, program, compile(t, test.source, flags...), start(t, program))
		})
	}
}

// splitFile returns the program's .dwo file.
func splitFile(t *testing.T, program string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(program), "*.dwo"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %q, want one .dwo file (%v)", found, err)
	}
	return found[0]
}

func compressSplit(t *testing.T, program string) {
	tool(t, "objcopy", "--compress-debug-sections=zlib", splitFile(t, program))
}

// packSplit moves the .dwo file into a .dwp file.
func packSplit(t *testing.T, program string) {
	split := splitFile(t, program)
	tool(t, "llvm-dwp-19", split, "-o", program+".dwp")
	if err := os.Remove(split); err != nil {
		t.Fatal(err)
	}
}

// TestSplitDWARFMissing must have function and line all the same, by the
// symbols and the line table that stays in the program, and say what is
// missing; a .dwo file of another build is no better than none.
func TestSplitDWARFMissing(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		for name, what := range map[string]string{"missing": "not found", "of another build": "another build"} {
			program := compile(t, "inlines.c", "-O2", "-gsplit-dwarf", version)
			split := splitFile(t, program)
			if err := os.Remove(split); err != nil {
				t.Fatal(err)
			}
			if name != "missing" {
				other := compile(t, "inlines.c", "-O1", "-gsplit-dwarf", version)
				copyFile(t, splitFile(t, other), split)
			}
			judged := compile(t, "inlines.c", "-O2", version)
			addrs := sampleCode(t, judged)
			want := addr2line(t, judged, addrs)
			s, r := fileSpace(t, program), newResolver(t, Options{})
			for _, a := range addrs {
				got := frameLines(r.Frames(s, []uint64{a}, false))
				_, line, _ := strings.Cut(got[0], "\t")
				_, wantLine, _ := strings.Cut(want[a][0], "\t")
				if len(got) != 1 || line != wantLine || strings.HasPrefix(got[0], "0x") {
					t.Fatalf("%s %s, %#x: %q, want one frame at %s", version, name, a, got, wantLine)
				}
			}
			if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], ".dwo") || !strings.Contains(w[0], what) {
				t.Errorf("%s %s: warnings %q, want one that says %q", version, name, w, what)
			}
		}
	}
}
