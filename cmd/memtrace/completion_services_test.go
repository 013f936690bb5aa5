//go:build integration && services

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// typed is what a user types before Tab, and what the shell makes of it.
var typed = []struct{ typed, becomes string }{
	{"memtrace ru", "memtrace run "},
	{"memtrace run --so", "memtrace run --sort "},
	{"memtrace run --sort li", "memtrace run --sort live"},
	{"memtrace run --sort=li", "memtrace run --sort=live"},
	{"memtrace --fail-on definite,po", "memtrace --fail-on definite,possible"},
	{"memtrace --comm memtrace-te", "memtrace --comm memtrace-test-s"},
	{"memtrace run --junit uniq", "memtrace run --junit unique-file"},
	{"memtrace run --junit=uniq", "memtrace run --junit=unique-file"},
	{"memtrace diff uniq", "memtrace diff unique-file"},
	{"memtrace run -- memtrace-test-p", "memtrace run -- memtrace-test-program"},
	{"memtrace run --leaks cat uniq", "memtrace run --leaks cat unique-file"},
	{"memtrace help contai", "memtrace help containers"},
	{"memtrace help conf", "memtrace help config"},
	{"memtrace config to", "memtrace config top"},
	{"memtrace config --check uniq", "memtrace config --check unique-file"},
	{"memtrace serve --config uniq", "memtrace serve --config unique-file"},
	{"memtrace completion zs", "memtrace completion zsh"},
}

// TestShellsComplete types into real shells, in a terminal.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	for shell, how := range map[string]struct{ command, start []string }{
		"bash": {[]string{"bash", "--norc", "--noprofile", "-i"}, []string{"source <(memtrace completion bash)"}},
		"zsh":  {[]string{"zsh", "-f", "-i"}, []string{"autoload -U compinit; compinit -u -D", "source <(memtrace completion zsh)"}},
		"fish": {[]string{"fish", "--no-config"}, []string{"set -g fish_autosuggestion_enabled 0", "memtrace completion fish | source"}},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			x := startShell(t, how.command)
			for _, line := range how.start {
				x.keys("-l", line)
				x.keys("Enter")
			}
			x.keys("-l", "echo shell-is-'ready'")
			x.keys("Enter")
			x.until("(?m)^shell-is-ready")
			for _, c := range typed {
				x.keys("-l", c.typed)
				x.keys("Tab")
				x.until("(?m)" + regexp.QuoteMeta(strings.TrimSpace(c.becomes)) + "( |$|/)")
				x.keys("C-u")
			}
		})
	}
}

// startShell runs a shell in a directory with a file and a program to
// complete, while a process runs whose name is to be completed, too.
func startShell(t *testing.T, command []string) *terminal {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, work := t.TempDir(), t.TempDir()
	for _, name := range []string{"memtrace", "memtrace-test-program"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "unique-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	startNamed(t, filepath.Join(bin, "sleepers"), "memtrace-test-s")
	// tmux has a PATH of its own.
	return startTerminal(t, []string{"PS1=$ ", "HOME=" + work}, append([]string{"-c", work, "env", "PATH=" + bin + ":" + os.Getenv("PATH")}, command...)...)
}

// startNamed starts a process of a name that runs until the test ends.
func startNamed(t *testing.T, dir, name string) int {
	t.Helper()
	sleep, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, name)) // it waits for stdin to be closed
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestShellsOfferProcesses asks the shells themselves for the candidates of -p: an ID, and the name behind it.
func TestShellsOfferProcesses(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "memtrace")); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(startNamed(t, filepath.Join(bin, "sleepers"), "memtrace-test-s"))
	for shell, want := range map[string]struct{ script, line string }{
		"bash": {`source <(memtrace completion bash); COMP_WORDS=(memtrace -p ''); COMP_CWORD=2 COMP_LINE='memtrace -p ' COMP_POINT=12 COMP_TYPE=63
			_memtrace; printf '%s\n' "${COMPREPLY[@]}"`, pid + "  (memtrace-test-s)"},
		"fish": {`memtrace completion fish | source; complete -C 'memtrace -p '`, pid + "\tmemtrace-test-s"},
	} {
		cmd := exec.Command(shell, "-c", want.script)
		cmd.Env = append(os.Environ(), asMemtrace+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains("\n"+string(out), "\n"+want.line+"\n") {
			t.Errorf("%s offers (%v), without %q:\n%s", shell, err, want.line, out)
		}
	}
}

// TestManualPages has mandoc find mistakes in the manual pages.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range manualPages(time.Now()) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.[15]"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages (%v)", err)
	}
	out, err := exec.Command("mandoc", append([]string{"-T", "lint"}, pages...)...).Output()
	var found *exec.ExitError // it says by its code that there are messages
	if err != nil && !errors.As(err, &found) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		// It looks for other pages where they are installed, and these are not.
		if name, found := strings.CutPrefix(line[max(0, strings.Index(line, "referenced manual not found: ")):], "referenced manual not found: Xr "); found {
			words := strings.Fields(name) // the page and its section
			if _, err := os.Stat(filepath.Join(dir, words[0]+"."+words[1])); err == nil {
				continue
			}
		}
		t.Error(line)
	}
	for name, want := range map[string]string{
		"memtrace-run.1": "--fail-on", "memtrace.yaml.5": "memory lock may be held", "memtrace-config.5": "Exit with 23",
	} {
		page, err := exec.Command("mandoc", "-T", "utf8", "-O", "width=78", filepath.Join(dir, name)).Output()
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("mandoc shows of %s (%v), without %q:\n%s", name, err, want, page)
		}
	}
}
