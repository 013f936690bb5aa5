package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// checkout makes a folder with one of this project's scripts, and with these files.
func checkout(t *testing.T, script string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", script))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{script: string(text)}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := proctest.WriteProgram(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runIn returns what a command in a folder prints, and its exit code.
func runIn(dir, name string, args ...string) (string, int) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // the exit code is what matters
	return string(out), cmd.ProcessState.ExitCode()
}

// TestStepsFail: a step that fails fails the whole, whichever it is, and the others run.
func TestStepsFail(t *testing.T) {
	dir := checkout(t, ".ci/steps", map[string]string{
		"Makefile": "good:\n\t@echo all is well\nbad:\n\t@echo this is broken; false\n",
	})
	for _, c := range []struct {
		steps  []string
		code   int
		failed string
	}{
		{[]string{"good"}, 0, ""},
		{[]string{"bad", "good"}, 1, "bad\n"},
		{[]string{"good", "bad"}, 1, "bad\n"},
	} {
		said, code := runIn(dir, "bash", append([]string{".ci/steps"}, c.steps...)...)
		failed, err := os.ReadFile(filepath.Join(dir, "build", "steps", "failed"))
		if err != nil || code != c.code || string(failed) != c.failed || !strings.Contains(said, "all is well") {
			t.Errorf("%q: exit code %d, failed %q (%v), want %d, %q; it said:\n%s", c.steps, code, failed, err, c.code, c.failed, said)
		}
	}
}

// TestLoadedRoundsFail: a round whose tests fail, or can't be run, fails the whole.
func TestLoadedRoundsFail(t *testing.T) {
	// go stands for all that is run by it: each round's tests, then the rates.
	const fake = `#!/bin/bash
case $* in
*gotestsum*/1.json*) exit $FIRST ;;
*gotestsum*) exit $SECOND ;;
esac
`
	dir := checkout(t, "testdata/tools/test-loaded", map[string]string{
		"go": fake, "testdata/tools/load": "#!/bin/bash\nexec sleep 600\n",
	})
	for _, c := range []struct {
		first, second string
		code          int
	}{{"0", "0", 0}, {"1", "0", 1}, {"0", "1", 1}} {
		said, code := runIn(dir, "env", "GO="+filepath.Join(dir, "go"), "FIRST="+c.first, "SECOND="+c.second,
			"bash", "testdata/tools/test-loaded", "2", "./...")
		if code != c.code {
			t.Errorf("rounds that end with %s and %s: exit code %d, want %d; it said:\n%s", c.first, c.second, code, c.code, said)
		}
	}
}

// TestKernelRunSaysWhatFailed: a VM whose tests fail, or that ends without a result, fails, with what the tests that
// failed printed, and whether they fail alone.
func TestKernelRunSaysWhatFailed(t *testing.T) {
	// The console of a VM, and that of the run of what failed in it.
	const fake = `#!/bin/bash
while [[ $1 != -serial ]]; do shift; done
case $2 in
*again.log) cp again "${2#file:}" ;;
*) cp first "${2#file:}" ;;
esac
`
	const first = "=== RUN   TestGood\n=== RUN   TestBad\n=== CONT  TestGood\n    good.go:1: all is well\n" +
		"=== CONT  TestBad\n    bad.go:7: got 1, want 2\n--- PASS: TestGood (0.00s)\n--- FAIL: TestBad (0.00s)\n" +
		"VM-TESTED: cmd/memtrace 1\nVM-RESULT: 1\n"
	for _, c := range []struct {
		first, again string
		code         int
		says         []string
	}{
		{"VM-RESULT: 0\n", "", 0, []string{"passed"}},
		{first, "--- PASS: TestBad (0.00s)\n", 1, []string{"TestBad said:\n        bad.go:7: got 1, want 2", "TestBad failed, and passed when run again alone"}},
		{first, "--- FAIL: TestBad (0.00s)\n", 1, []string{"bad.go:7: got 1, want 2", "TestBad failed, and failed again alone"}},
		{"panic: test timed out\n\nVM-RESULT: 1\n", "", 1, []string{"panic: test timed out"}},
		{"=== RUN   TestBad\nKernel panic - not syncing\n", "", 1, []string{"ended without a result", "TestBad", "Kernel panic"}},
	} {
		dir := checkout(t, "testdata/vm/run-kernel", map[string]string{
			"bin/qemu-system-x86_64": fake, "build/vm/kept": "", "first": c.first, "again": c.again,
		})
		said, code := runIn(dir, "env", "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "bash", "testdata/vm/run-kernel", "5.10", "60")
		if code != c.code {
			t.Errorf("exit code %d, want %d; it said:\n%s", code, c.code, said)
		}
		for _, text := range c.says {
			if !strings.Contains(said, text) {
				t.Errorf("%q is missing from:\n%s", text, said)
			}
		}
		if strings.Contains(said, "all is well") {
			t.Errorf("it says what a test that passed printed:\n%s", said)
		}
	}
}

// TestRunKeepsALine: a run of CI ends as its steps did, and says so in the log of all runs, with the steps that failed.
func TestRunKeepsALine(t *testing.T) {
	for _, c := range []struct {
		steps string // what make test does
		code  int
		says  string
	}{
		{"true", 0, `unknown passed, \d+ s, load before [\d.]+ [\d.]+ [\d.]+`},
		{
			`mkdir -p build/steps; printf 'lint\nunit\n' >build/steps/failed; false`, 2,
			`unknown failed in lint,unit, \d+ s, load before .*`,
		},
		{"false", 2, `unknown failed in setup, \d+ s, load before .*`},
	} {
		dir := checkout(t, ".ci/run", map[string]string{"Makefile": "test:\n\t@" + c.steps + "\n"})
		said, code := runIn(dir, "env", "MEMTRACE_CACHE="+filepath.Join(dir, "cache"),
			"GIT_DIR="+filepath.Join(dir, "none"), "bash", ".ci/run")
		line, err := os.ReadFile(filepath.Join(dir, "cache", "ci.log"))
		if err != nil || code != c.code {
			t.Errorf("make test does %q: exit code %d, want %d, %v; it said:\n%s", c.steps, code, c.code, err, said)
		}
		if want := regexp.MustCompile(`\A\d{4}-\d\d-\d\dT\S+Z ` + c.says + `\n\z`); !want.Match(line) {
			t.Errorf("make test does %q: the log has %q, want %s", c.steps, line, want)
		}
	}
}

// TestFailedTestsRunAgain: what failed is run once more, alone, and has failed also where it passes then.
func TestFailedTestsRunAgain(t *testing.T) {
	// go stands for all that is run by it: the tests, the question which failed, and each of these alone.
	const fake = `#!/bin/bash
case $* in
*gotestsum*) exit "$FIRST" ;;
*testlog*) printf 'example.org/p TestA\nexample.org/p TestB\n' ;;
*-run\ ^TestA\$\ example.org/p) ;;
*) exit 1 ;;
esac
`
	dir := checkout(t, ".ci/tests", map[string]string{"go": fake})
	run := func(first string) (said string, code int) {
		return runIn(dir, "env", "GO="+filepath.Join(dir, "go"), "FIRST="+first,
			"bash", ".ci/tests", "some", "-run", "^(TestA|TestB)$", "--", "./...")
	}
	if said, code := run("0"); code != 0 {
		t.Errorf("none failed: exit code %d; it said:\n%s", code, said)
	}
	said, code := run("1")
	again, err := os.ReadFile(filepath.Join(dir, "build", "tests", "some.again"))
	const want = "example.org/p TestA: failed, and passed when run again alone\n" +
		"example.org/p TestB: failed, and failed again alone\n"
	if err != nil || code != 1 || string(again) != want {
		t.Errorf("exit code %d, want 1; of the second runs it keeps %q (%v), want %q; it said:\n%s",
			code, again, err, want, said)
	}
}
