//go:build integration && services

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// terminal is a real one, on a tmux server of the test's own.
type terminal struct {
	t              *testing.T
	socket, config string
}

// startTop runs memtrace top in a terminal of 80 × 24.
func startTop(t *testing.T, flags string, env ...string) *terminal {
	t.Helper()
	return startInTerminal(t, "top "+flags, env...)
}

// startInTerminal runs memtrace in a terminal of 80 × 24.
func startInTerminal(t *testing.T, arguments string, env ...string) *terminal {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startTerminal(t, env, "sh", "-c", "trap : INT; echo before; "+self+" "+arguments+"; echo ended $?; exec sleep 60")
}

// startTerminal runs a command in a terminal of 80 × 24, where the test binary is memtrace.
func startTerminal(t *testing.T, env []string, command ...string) *terminal {
	t.Helper()
	x := &terminal{t, filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "conf")}
	if err := os.WriteFile(x.config, []byte("set -g status off\nset -g escape-time 0\nset -g mouse on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-u", "new-session", "-d", "-x", "80", "-y", "24", "-e", asMemtrace + "=1", "-e", "LC_ALL=C.UTF-8", "-e", "NO_COLOR="}
	for _, v := range env {
		args = append(args, "-e", v)
	}
	x.run(append(args, command...)...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	return x
}

func (x *terminal) run(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket, "-f", x.config}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (x *terminal) keys(names ...string) { x.run(append([]string{"send-keys"}, names...)...) }

// until waits for the screen to match a pattern, and returns its lines.
func (x *terminal) until(pattern string) []string {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	var screen string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if screen = x.run("capture-pane", "-p"); re.MatchString(screen) {
			return strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		}
	}
	x.t.Fatalf("the terminal never showed %q; it shows:\n%s", pattern, screen)
	return nil
}

func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	k := startKnownMemory(t)
	t.Logf("%s is process %d", k.Name, k.PID)
	x := startTop(t, "-i 500ms")
	x.until(`(?s)memtrace top.*PID USER.*COMMAND`)
	x.keys("/")
	x.until(`Filter`)
	x.keys("-l", "name:"+k.Name)
	x.keys("Enter")
	lines := x.until(fmt.Sprintf(`(?s)\n *%d root [^\n]* (4[89]|5[01])\.\dM [^\n]*%s.*\nfilter`, k.PID, k.Name))
	if len(lines) != 24 || !strings.HasPrefix(lines[23], "filter name:"+k.Name) {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
	x.keys("t")
	x.until(`(?s)TID.*worker-2`)
	x.keys("m")
	x.until(`(?s)ADDRESS.*48\.0M`)
	x.keys("Escape")
	x.until(`COMMAND`) // a key that came at once would make it Alt and that key
	x.keys("2")
	x.until(`(?s)PROGRAM.*` + k.Name)
	x.keys("4")
	x.until(`(?s)page cache.*unexplained`)
	x.keys("h")
	x.until(`any other key closes`)
	x.keys("x", "7")
	x.until(`CGROUP`)

	x.run("resize-window", "-x", "160", "-y", "50")
	x.keys("1")
	if lines := x.until(`(?s)CGROUP.*COMMAND.*` + k.Name); len(lines) != 50 {
		t.Errorf("%d lines on 50", len(lines))
	}
	x.run("resize-window", "-x", "40", "-y", "10")
	x.until(`(?m)^ +PID +.*COMMAND`)
	x.run("resize-window", "-x", "80", "-y", "24")
	x.keys("f")
	x.until(`FROZEN`)
	x.keys("q")
	x.until(`(?s)before.*ended 0`)
	if state := strings.TrimSpace(x.run("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}")); state != "0 1 0" {
		t.Errorf("alternate screen, cursor, mouse afterwards: %q", state)
	}
}

// What a narrow terminal shows is all there, and what it showed is gone once it
// is wider.
func TestTopOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	startKnownMemory(t)
	x := startTop(t, "-i 500ms")
	x.until(`COMMAND`)
	x.run("resize-window", "-x", "40", "-y", "12")
	x.keys("h")
	x.until(`(?s)Tab +views.*PgUp.*reverse the.order`)
	x.keys("x", "/")
	x.keys("-l", "name:known_memory")
	x.until(`(?m)^Filter: name:known_memory█$`)
	x.keys("-l", " !cgroup:something-else")
	x.until(`(?m)^\S*ory !cgroup:something-else█$`)
	x.keys("Enter", "f")
	x.until(`(?m)FROZEN$`)
	x.run("resize-window", "-x", "120", "-y", "24")
	x.until(`running  FROZEN`)
	time.Sleep(time.Second) // longer than it takes to draw what the resize brought
	x.keys("f")
	x.until(`\A[^\n]*running *\n`)
}

// The mouse reaches top as the terminal sends it: SGR, 1-based.
func TestTopAnswersTheMouse(t *testing.T) {
	t.Parallel()
	k := startKnownMemory(t)
	x := startTop(t, "--filter name:"+k.Name)
	lines := x.until(`(?m)▼PSS.*COMMAND`)
	row := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "PSS") })
	column := len([]rune(lines[row][:strings.Index(lines[row], "USS")]))
	x.keys("-l", fmt.Sprintf("\x1b[<0;%d;%dM", column+1, row+1))
	x.until(`▼USS`)
	x.keys("-l", fmt.Sprintf("\x1b[<0;%d;3M", strings.Index(lines[2], "Memory")+1))
	x.until(`page cache`)
}

// Enter traces in the same terminal, whatever is configured for traces to files; q comes back, and harms nobody.
func TestTopTracesAndComesBack(t *testing.T) {
	t.Parallel()
	k := startKnownMemory(t)
	x := startTop(t, fmt.Sprintf("--filter pid:%d", k.PID), "MEMTRACE_TRACE_QUIET=true", "MEMTRACE_TRACE_FORMAT=json")
	x.until(fmt.Sprintf(`(?m)^ *%d root`, k.PID))
	x.keys("Enter")
	x.until(fmt.Sprintf(`(?s)%s \(pid %d\)  traced.*q back to top`, k.Name, k.PID))
	x.keys("q")
	x.until(fmt.Sprintf(`(?s)memtrace top.*%d root.*traced process %d`, k.PID, k.PID))
	x.keys("j", "C-c")
	lines := x.until(`ended 0`)
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "Losses: nothing lost") {
		t.Errorf("the trace's report is not on the terminal afterwards:\n%s", text)
	}
}

func TestTopWithoutColour(t *testing.T) {
	t.Parallel()
	colour := regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|9[0-7]|4[0-7])m`)
	for _, c := range []struct {
		env  []string
		want bool
	}{{nil, true}, {[]string{"NO_COLOR=1"}, false}} {
		x := startTop(t, "", c.env...)
		x.until(`COMMAND`)
		if got := colour.MatchString(x.run("capture-pane", "-p", "-e")); got != c.want {
			t.Errorf("environment %v: colour %v", c.env, got)
		}
	}
}

// SIGTERM gives the terminal back, as a key does.
func TestTopEndsOnSignals(t *testing.T) {
	t.Parallel()
	x := startTop(t, "")
	x.until(`COMMAND`)
	shell := strings.TrimSpace(x.run("display-message", "-p", "#{pane_pid}"))
	children, err := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(children))[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.until(`(?s)before.*ended 0`)
}
