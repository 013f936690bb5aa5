package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fixture is a module whose tests end in every way there is.
var fixture = map[string]string{
	"go.mod": "module fixture\n\ngo 1.21\n",
	"ends/ends_test.go": `package ends

import (
	"os"
	"testing"
	"time"
)

func TestPasses(t *testing.T) { time.Sleep(20 * time.Millisecond) }
func TestSkips(t *testing.T)  { t.Skip("not today") }
func TestFails(t *testing.T) {
	t.Run("sub", func(t *testing.T) { t.Error("seven is not eight") })
	t.Run("a", func(t *testing.T) { t.Run("b", func(t *testing.T) { t.Error("of a sub-test") }) })
	t.Run("a-b", func(t *testing.T) { t.Error("of another") })
	t.Run("fine", func(t *testing.T) {})
}
func TestFailsAtTimes(t *testing.T) {
	if os.Getenv("FAIL") != "" {
		t.Error("at times")
	}
}
`,
	"exits/exits_test.go":   "package exits\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestExits(t *testing.T) { println(\"here\"); os.Exit(3) }\n",
	"builds/builds_test.go": "package builds\n\nfunc TestBuilds(t *testing.T) {}\n",
}

// goTest runs the fixture's tests and returns the file of what go test -json said.
func goTest(t *testing.T, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range fixture {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, _ := cmd.Output() // an error: tests fail
	path := filepath.Join(dir, "run.json")
	if err := os.WriteFile(path, out, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func ask(t *testing.T, args ...string) string {
	t.Helper()
	var text strings.Builder
	if err := answer(&text, args); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestAnswers(t *testing.T) {
	first, second := goTest(t), goTest(t, "FAIL=1")
	got := strings.Fields(strings.ReplaceAll(ask(t, "failed", first), "fixture/", ""))
	slices.Sort(got)
	if want := []string{"TestExits", "TestFails", "builds", "ends", "exits"}; !slices.Equal(got, want) {
		t.Errorf("failed: %q, want %q", got, want)
	}
	if got := ask(t, "count", first); got != "2 passed, 3 failed, 1 skipped\n" {
		t.Errorf("count: %q", got)
	}
	if got := ask(t, "slowest", first); !strings.Contains(strings.Split(got, "\n")[0], "TestPasses") {
		t.Errorf("slowest: %q", got)
	}
	got = strings.Split(strings.ReplaceAll(ask(t, "complaints", first), "fixture/", ""), "\n")
	for _, want := range []string{
		"ends TestFails/sub:", "        ends_test.go:12: seven is not eight", "ends TestFails/a/b:", "ends TestFails/a-b:",
		"exits TestExits:", "    here", "builds:",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("complaints lack %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, "/fine") || strings.Contains(all, "/a:") || strings.Contains(all, "TestPasses") {
		t.Errorf("complaints name a test that passed:\n%s", all)
	}
	rates := ask(t, "rates", first, second)
	for _, want := range []string{
		"  2 of 2  fixture/ends TestFails\n", "  1 of 2  fixture/ends TestFailsAtTimes\n", "  2 of 2  fixture/exits TestExits\n",
		"  2 of 2  fixture/builds\n", "seven is not eight", "at times", "here", "undefined: testing",
	} {
		if !strings.Contains(rates, want) {
			t.Errorf("rates lack %q:\n%s", want, rates)
		}
	}
	if strings.Contains(rates, "TestPasses") {
		t.Errorf("rates name a test that passed:\n%s", rates)
	}
}

func TestRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cut.json")
	if err := os.WriteFile(path, []byte(`{"Action":"run"`), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want failed, complaints": {"often"},
		"no such file":            {"failed", "no-such-file"},
		"read " + path:            {"failed", path},
	} {
		if err := answer(&strings.Builder{}, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
