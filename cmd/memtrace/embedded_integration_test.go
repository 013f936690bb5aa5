//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// TestSuppressionsOfTheProgramItself: what a program has built in for
// LeakSanitizer counts as it does there.
func TestSuppressionsOfTheProgramItself(t *testing.T) {
	t.Parallel()
	peer := filepath.Join(t.TempDir(), "embedded")
	if out, err := exec.Command("gcc", "-O1", "-g", "-fsanitize=leak", "-o", peer, "../../testdata/programs/embedded.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{nil, {"more"}} {
		theirs := exec.Command(peer, args...)
		theirs.Env = append(os.Environ(), "LSAN_OPTIONS=exitcode=23")
		said, _ := theirs.CombinedOutput() // its code is looked at
		file := filepath.Join(t.TempDir(), "report")
		_, code := runLeaks(t, append([]string{"run", "--fail-on", "definite", "--format", "json", "--report", file, "--", testProgram("embedded")}, args...)...)
		r := readReport(t, file)
		if want := theirs.ProcessState.ExitCode(); code != want || len(r.Leaks) != len(args) || strings.Contains(string(said), "222 byte") != (len(args) > 0) {
			t.Errorf("%q: exit code %d, LeakSanitizer's is %d; leaks %+v, LeakSanitizer says %s", args, code, want, r.Leaks, said)
		}
		if got := r.Outcome.Suppressed; got != (report.LeakSum{Count: 1, Bytes: 111}) || len(r.Outcome.Unused) != 0 {
			t.Errorf("%q: suppressed %+v, unused %q", args, got, r.Outcome.Unused)
		}
	}
}
