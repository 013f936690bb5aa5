//go:build integration

package tui

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// paintEnv makes the test binary paint instead of testing, in a terminal that
// the test looks at from outside.
const paintEnv = "MEMTRACE_TEST_PAINT"

func TestMain(m *testing.M) {
	if os.Getenv(paintEnv) != "" {
		paintUntilInterrupted()
		return
	}
	os.Exit(m.Run())
}

func paintUntilInterrupted() {
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, syscall.SIGINT)
	p := Start(ForTerminal(os.Stdout))
	for frame := 0; ; frame++ {
		r := example("site_of_frame")
		r.Sites[0].Function = strings.Repeat("x", 200) + "END" // fills every width
		for i := range 40 {
			r.Sites = append(r.Sites, report.Site{ID: i + 1, Function: fmt.Sprintf("site_%d", i+1), LiveBytes: 1})
		}
		r.WindowNS = uint64(frame+1) * 1e8
		p.Paint(r)
		select {
		case <-interrupt:
			err := p.Stop()
			fmt.Println("stopped:", err, p.Stop())
			time.Sleep(time.Minute) // until the test ends the terminal
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tmux runs a tmux command on a server of the test's own.
type tmux struct {
	t              *testing.T
	socket, config string
}

func (x tmux) run(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket, "-f", x.config}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// until waits for a condition on what the terminal shows.
func (x tmux) until(what string, met func(screen []string) bool) {
	x.t.Helper()
	var screen string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		screen = x.run("capture-pane", "-p")
		if met(strings.Split(strings.TrimSuffix(screen, "\n"), "\n")) {
			return
		}
	}
	x.t.Fatalf("terminal never showed %s; it shows:\n%s", what, screen)
}

func TestInTmux(t *testing.T) {
	x := tmux{t, filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "conf")}
	if err := os.WriteFile(x.config, []byte("set -g status off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x.run("new-session", "-d", "-x", "80", "-y", "24", "-e", paintEnv+"=1", "sh", "-c", "echo before; exec "+self)
	defer exec.Command("tmux", "-S", x.socket, "kill-server").Run()

	x.until("the report on 24 rows", func(s []string) bool {
		return len(s) == 24 && strings.HasPrefix(s[0], "demo (pid 7)") && s[23] == "Losses: nothing lost" &&
			len([]rune(s[7])) == 80 && strings.HasSuffix(s[7], "xEND")
	})
	if state := strings.TrimSpace(x.run("display-message", "-p", "#{alternate_on} #{cursor_flag}")); state != "1 0" {
		t.Errorf("alternate screen, cursor: %q, want on and hidden", state)
	}
	x.run("resize-window", "-x", "120", "-y", "40")
	x.until("the report on 40 rows", func(s []string) bool {
		return len(s) == 40 && s[39] == "Losses: nothing lost" && strings.Contains(strings.Join(s, "\n"), "RESIDENT")
	})
	x.run("resize-window", "-x", "40", "-y", "10")
	x.until("the report on 10 rows", func(s []string) bool {
		return len(s) == 10 && strings.HasPrefix(s[0], "demo") && s[8] == "Losses: nothing lost"
	})
	x.run("send-keys", "C-c")
	x.until("the screen from before", func(s []string) bool {
		return s[0] == "before" && strings.Contains(strings.Join(s, "\n"), "stopped: <nil> <nil>")
	})
	if state := strings.TrimSpace(x.run("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}")); state != "0 1 1" {
		t.Errorf("alternate screen, cursor, wrap after Stop: %q", state)
	}
}
