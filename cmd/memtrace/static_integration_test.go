//go:build integration

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLeaksOfAStaticProgram: a linker leaves out of musl's allocator what a static program does not call. One without
// free leaks what it allocates, one without malloc leaks nothing, and of one without symbols nobody knows.
func TestLeaksOfAStaticProgram(t *testing.T) {
	t.Parallel()
	const nothing = "int main(void) { return 0; }"
	const neverFrees = `#include <stdlib.h>
int main(void) {
	for (int i = 0; i < 7; i++) {
		char *volatile lost = malloc(777);
		lost[0] = 1;
	}
	return 0;
}`
	for name, c := range map[string]struct {
		source string
		flags  []string
		code   int
		says   string
	}{
		"without malloc":           {nothing, nil, 0, "Leaks: none"},
		"without free":             {neverFrees, nil, 23, "definite"},
		"without malloc, stripped": {nothing, []string{"-s"}, 1, "without symbols"},
		"without free, stripped":   {neverFrees, []string{"-s"}, 1, "without symbols"},
	} {
		program := filepath.Join(t.TempDir(), "program")
		compiler := exec.Command("musl-gcc", append(c.flags, "-static", "-O1", "-x", "c", "-o", program, "-")...)
		compiler.Stdin = strings.NewReader(c.source)
		if out, err := compiler.CombinedOutput(); err != nil {
			t.Fatalf("musl-gcc: %v\n%s", err, out)
		}
		for how, command := range map[string][]string{
			"started": {program},
			"by exec": {"/usr/bin/env", program},
			"child":   {"/bin/sh", "-c", `"$0"; true`, program},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"run", "--fail-on", "definite", "--"}, command...)
				cmd := memtraceCommand(t, args...)
				said, err := cmd.CombinedOutput()
				if err != nil && !errors.As(err, new(*exec.ExitError)) {
					t.Fatal(err)
				}
				if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(said), c.says) {
					t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, said)
				}
			})
		}
	}
}
