package symbol

import (
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFramesAgreeWithAddr2line builds programs in the ways that distributions
// build theirs, runs them, and compares each frame at hundreds of addresses of
// their code with what binutils say.
func TestFramesAgreeWithAddr2line(t *testing.T) {
	tests := []struct {
		name, source string
		flags        []string
		finish       func(t *testing.T, program string) // what is done to the program before it runs
		judgedBy     []string                           // flags of a build with the same code for addr2line to read
	}{
		{"C++ DWARF 5", "inlines.cc", []string{"-O2", "-Wl,--build-id", "-gdwarf-5"}, nil, nil},
		{"C++ DWARF 4, a section a function", "inlines.cc", []string{"-O2", "-gdwarf-4", "-ffunction-sections", "-Wl,--gc-sections"}, stripToDebugLink, nil},
		{"C DWARF 5", "inlines.c", []string{"-O2", "-gdwarf-5"}, nil, nil},
		{"C DWARF 4", "inlines.c", []string{"-O2", "-gdwarf-4"}, nil, nil},
		{"C DWARF 3", "inlines.c", []string{"-O2", "-gdwarf-3", "-gstrict-dwarf"}, nil, nil},
		{"C -O3", "inlines.c", []string{"-O3", "-g"}, nil, nil},
		{"C -O0", "inlines.c", []string{"-O0", "-g"}, nil, nil},
		{"C no PIE", "inlines.c", []string{"-O2", "-g", "-no-pie"}, nil, nil},
		{"C 64-bit DWARF", "inlines.c", []string{"-O2", "-gdwarf-5", "-gdwarf64"}, nil, []string{"-O2", "-gdwarf-5"}},
		{"C link-time optimisation", "inlines.c", []string{"-O2", "-g", "-flto"}, nil, nil},
		{"C zlib", "inlines.c", []string{"-O2", "-g", "-gz=zlib"}, nil, nil},
		{"C zstd", "inlines.c", []string{"-O2", "-g"}, compressZstd, nil},
		{"C build ID", "inlines.c", []string{"-O2", "-g", "-Wl,--build-id"}, stripToDebugLink, nil},
		{"C debug link by CRC", "inlines.c", []string{"-O2", "-g", "-Wl,--build-id=none"}, stripToDebugLink, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			program := compile(t, test.source, test.flags...)
			if test.finish != nil {
				test.finish(t, program)
			}
			judged := debugFileOf(program)
			if test.judgedBy != nil {
				judged = compile(t, test.source, test.judgedBy...)
			}
			compareWithAddr2line(t, program, judged, start(t, program))
		})
	}
}

func stripToDebugLink(t *testing.T, program string) {
	debug := filepath.Join(filepath.Dir(program), ".debug", "program.debug")
	if err := os.Mkdir(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	tool(t, "objcopy", "--only-keep-debug", program, debug)
	tool(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, program)
}

func compressZstd(t *testing.T, program string) {
	tool(t, "objcopy", "--compress-debug-sections=zstd", program)
}

// debugFileOf returns the file that holds the program's symbols.
func debugFileOf(program string) string {
	debug := filepath.Join(filepath.Dir(program), ".debug", "program.debug")
	if _, err := os.Stat(debug); err == nil {
		return debug
	}
	return program
}

// compareWithAddr2line compares all frames at addresses spread over the
// program's own code with what addr2line finds in file judged. The child's
// first word is the address of function plain.
func compareWithAddr2line(t *testing.T, program, judged string, c *child) {
	t.Helper()
	addrs := sampleCode(t, judged)
	bias := c.address(t, 0) - symbolValue(t, judged, "plain")
	s, r := c.space(t), newResolver(t, Options{})
	want := addr2line(t, judged, addrs)
	inlined, bad := 0, 0
	for _, a := range addrs {
		frames := r.Frames(s, []uint64{a + bias}, false)
		if frames[0].Offset != a || frames[0].Module != program {
			t.Fatalf("%#x is at %#x of %s, want %#x of %s", a+bias, frames[0].Offset, frames[0].Module, a, program)
		}
		inlined += len(frames) - 1
		if got := frameLines(frames); !sameFrames(got, want[a]) {
			if bad++; bad <= 5 {
				t.Errorf("%#x:\n%s\naddr2line says:\n%s", a, strings.Join(got, "\n"), strings.Join(want[a], "\n"))
			}
		}
	}
	t.Logf("%d addresses, %d inlined frames, %d differ", len(addrs), inlined, bad)
	if bad > 5 {
		t.Errorf("%d of %d addresses differ", bad, len(addrs))
	}
	if inlined == 0 && !strings.Contains(t.Name(), "O0") {
		t.Error("no address had an inlined frame: the test program tests nothing")
	}
	if w := append(r.Warnings(), s.Warnings()...); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
}

// sameFrames compares ours with addr2line's, less what is explained:
// in C++ it gives an innermost inlined function without a linkage name the
// name of the symbol around it, and an outermost one its plain name, where
// ours has the symbol's; functions without a linkage name keep ".cold"; in
// units of link-time optimisation binutils 2.40 calls the line table's file 1
// by the unit's name, where objdump and llvm-symbolizer agree with us.
func sameFrames(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		gotName, gotLine, _ := strings.Cut(got[i], "\t")
		wantName, wantLine, _ := strings.Cut(want[i], "\t")
		wantName = strings.TrimSuffix(wantName, ".cold")
		outermost := i == len(got)-1
		plain, _, _ := strings.Cut(wantName, "<")
		switch {
		case !outermost && i == 0 && !strings.HasPrefix(gotName, "_Z") && strings.HasPrefix(want[len(want)-1], wantName+"\t"):
			wantName = gotName
		case outermost && strings.HasPrefix(gotName, "_Z") && strings.Contains(gotName, plain):
			wantName = gotName
		}
		if number, ok := strings.CutPrefix(wantLine, "<artificial>:"); ok {
			wantLine = "inlines.c:" + number
		}
		if gotName != wantName || gotLine != wantLine {
			return false
		}
	}
	return true
}

// frameLines writes frames as "name<tab>file:line".
func frameLines(frames []*Frame) []string {
	var lines []string
	for i, f := range frames {
		name := f.Mangled
		if name == "" {
			name = f.Function
		}
		line := fmt.Sprintf("%s\t%s:%d", name, path.Base(path.Clean("/"+f.File)), f.Line)
		if f.Inlined != (i < len(frames)-1) {
			line += " (Inlined is wrong)"
		}
		lines = append(lines, line)
	}
	return lines
}

// addr2line asks binutils for all frames of each address, names as in the
// file, and writes them as frameLines does.
func addr2line(t testing.TB, file string, addrs []uint64) map[uint64][]string {
	t.Helper()
	answers := map[uint64][]string{}
	for len(addrs) > 0 {
		args := []string{"-a", "-f", "-i", "-e", file}
		n := min(len(addrs), 2000)
		for _, a := range addrs[:n] {
			args = append(args, strconv.FormatUint(a, 16))
		}
		addrs = addrs[n:]
		addr, function := uint64(0), ""
		for line := range strings.Lines(tool(t, "addr2line", args...)) {
			line = strings.TrimSuffix(line, "\n")
			if hex, ok := strings.CutPrefix(line, "0x"); ok {
				addr, _ = strconv.ParseUint(hex, 16, 64)
				function = ""
			} else if function == "" {
				function = line
			} else {
				answers[addr] = append(answers[addr], function+"\t"+sourceLine(line))
				function = ""
			}
		}
	}
	return answers
}

// sourceLine turns "dir/file.c:12 (discriminator 3)" into "file.c:12".
func sourceLine(at string) string {
	at, _, _ = strings.Cut(at, " (discriminator")
	file, line, _ := strings.Cut(path.Base(at), ":")
	return strings.ReplaceAll(file, "??", "/") + ":" + strings.ReplaceAll(line, "?", "0")
}

// sampleCode returns up to 1,500 addresses spread evenly over the functions
// that the file's own sources define: those with a size in .text.
func sampleCode(t testing.TB, file string) []uint64 {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	seen := map[uint64]bool{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || strings.HasPrefix(s.Name, "_init") || strings.HasPrefix(s.Name, "_fini") || s.Name == "_start" {
			continue
		}
		for a := s.Value; a < s.Value+s.Size; a++ {
			if !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	if len(all) < 100 {
		t.Fatalf("%s has only %d bytes of functions", file, len(all))
	}
	step := len(all)/1500 + 1
	var sample []uint64
	for i := 0; i < len(all); i += step {
		sample = append(sample, all[i])
	}
	return sample
}

func symbolValue(t testing.TB, file, name string) uint64 {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("%s has no symbol %s", file, name)
	return 0
}
