//go:build integration && amd64

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// packed is a C++ name of expansions of a pack of parameters, each within one before it.
func packed(function string, arguments, depth int) string {
	return fmt.Sprintf("_Z%d%sIJ", len(function), function) + strings.Repeat("i", arguments) + "EEv" +
		strings.Repeat("Dp1BIT_", depth) + "DpT_" + strings.Repeat("E", depth)
}

// TestNamesThatHaveNoEnd: a function's name of 249 bytes that would take for ever to demangle stays as it is, with a
// warning; one before and one after it do not.
func TestNamesThatHaveNoEnd(t *testing.T) {
	t.Parallel()
	endless := packed("f", 180, 7)
	source := "#include <stdlib.h>\nvoid *volatile kept;\n"
	for i, name := range []string{packed("before", 20, 3), endless, packed("later", 20, 3)} {
		source += fmt.Sprintf("void f%d(void) __asm__(%q); __attribute__((noinline)) void f%[1]d(void) { kept = malloc(%[3]d); }\n",
			i, name, 1000+i)
	}
	source += "int main(void) { f0(); f1(); f2(); kept = 0; return 0; }\n"
	program := filepath.Join(t.TempDir(), "endless")
	gcc := exec.Command("gcc", "-w", "-O1", "-g0", "-fno-builtin", "-xc", "-o", program, "-")
	gcc.Stdin = strings.NewReader(source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "run", "--leaks", "--format", "json", "--", program)
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{1000: "void before<int, ", 1001: endless, 1002: "void later<int, "}
	sites := r.SiteIndex()
	for _, l := range r.Leaks {
		frames, name := sites[l.Site].Frames(), want[l.Bytes]
		if len(frames) == 0 || name == "" || !strings.HasPrefix(frames[0].Function, name) {
			t.Errorf("%d bytes: %+v, want %.40q", l.Bytes, frames, name)
		}
	}
	if len(r.Leaks) != len(want) {
		t.Errorf("%d leaks, want %d", len(r.Leaks), len(want))
	}
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, program+": there are names in it that take more to demangle") {
		t.Errorf("warnings %q, want one of the name", text)
	}
}
