//go:build integration

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rsc.io/script"
)

// TestRootScripts runs the scripts that attach to processes.
func TestRootScripts(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Abs(filepath.Join("..", "..", "build", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PROGRAMS=" + programs, "MEMTRACE=" + self}
	runScripts(t, filepath.Join("testdata", "root"), env, func(t *testing.T) map[string]script.Cmd {
		return map[string]script.Cmd{
			"target": targetCommand(t, programs),
			"json":   jsonCommand(),
			"spawn":  spawnCommand(t),
			"traced": tracedCommand(t),
		}
	})
}

// child is a test program in attach mode; see testdata/programs/target.h.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	answer map[string]any
}

// targetCommand drives test programs:
//
//	target start NAME [ARG...]   start it; $PID is its process
//	target go                    let it run its measured part
//	target end                   let it exit, which must be with code 0
func targetCommand(t *testing.T, programs string) script.Cmd {
	var c *child
	return script.Command(script.CmdUsage{Summary: "drive a test program", Args: "start|go|end [name] [args...]"},
		func(s *script.State, args ...string) (script.WaitFunc, error) {
			if len(args) == 0 {
				return nil, script.ErrUsage
			}
			switch args[0] {
			case "start":
				var err error
				if c, err = startChild(t, filepath.Join(programs, args[1]), args[2:]); err != nil {
					return nil, err
				}
				return nil, s.Setenv("PID", strconv.Itoa(c.cmd.Process.Pid))
			case "go":
				return nil, c.proceed()
			case "end":
				return nil, c.end()
			}
			return nil, script.ErrUsage
		})
}

func startChild(t *testing.T, path string, args []string) (*child, error) {
	return startCommand(t, exec.Command(path, append([]string{"attach"}, args...)...))
}

// startCommand starts a test program in attach mode and waits until it is ready.
func startCommand(t *testing.T, cmd *exec.Cmd) (*child, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s (make testprograms builds it): %w", cmd.Path, err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	c := &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := c.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready") {
		return nil, fmt.Errorf("%s said %q (%v), want ready", cmd.Path, line, err)
	}
	return c, nil
}

// proceed lets the program run and reads the answer that ends its measured part.
func (c *child) proceed() error {
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		return err
	}
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(line), &c.answer); err != nil {
			return fmt.Errorf("parse the answer %q: %w", line, err)
		}
		if c.answer["final"] == true {
			return nil
		}
	}
}

// part is what one process of a program says of itself.
type part struct {
	PID   int
	How   string
	Final bool
	Total struct {
		LiveBytes uint64 `json:"live_bytes"`
	}
}

// proceedAll lets the program run and reads the answers of all its processes.
func (c *child) proceedAll() ([]part, error) {
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		return nil, err
	}
	var parts []part
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var p part
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			return nil, fmt.Errorf("parse the answer %q: %w", line, err)
		}
		parts = append(parts, p)
		switch {
		case p.Final:
			return parts, nil
		case p.How == "parent": // it waits once more before it executes itself
			if _, err := io.WriteString(c.in, "go\n"); err != nil {
				return nil, err
			}
		}
	}
}

func (c *child) end() error {
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c.out); err != nil {
		return err
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the traced program was harmed: %w", err)
	}
	return nil
}

// jsonCommand compares figures in the last stdout's last line of JSON:
//
//	json events.alloc 38
//	json processes.0.heap.live_bytes 75456
func jsonCommand() script.Cmd {
	return script.Command(script.CmdUsage{Summary: "compare a figure of the Report on stdout", Args: "path value"},
		func(s *script.State, args ...string) (script.WaitFunc, error) {
			if len(args) != 2 {
				return nil, script.ErrUsage
			}
			lines := strings.Split(strings.TrimSpace(s.Stdout()), "\n")
			var doc any
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &doc); err != nil {
				return nil, fmt.Errorf("parse stdout: %w", err)
			}
			got, err := lookup(doc, args[0])
			if err != nil {
				return nil, err
			}
			if got != args[1] {
				return nil, fmt.Errorf("%s is %s, want %s", args[0], got, args[1])
			}
			return nil, nil
		})
}

func lookup(doc any, path string) (string, error) {
	for key := range strings.SplitSeq(path, ".") {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(d) {
				return "", fmt.Errorf("no element %s", key)
			}
			doc = d[i]
		default:
			return "", errors.New("nothing at " + key)
		}
	}
	if f, ok := doc.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64), nil
	}
	return fmt.Sprint(doc), nil
}

// spawnCommand starts a program that runs until the test ends; $PID is its
// process. When it returns, the program has been executed.
func spawnCommand(t *testing.T) script.Cmd {
	return script.Command(script.CmdUsage{Summary: "start a program", Args: "program [args...]"},
		func(s *script.State, args ...string) (script.WaitFunc, error) {
			if len(args) == 0 {
				return nil, script.ErrUsage
			}
			cmd := exec.Command(s.Path(args[0]), args[1:]...)
			if err := cmd.Start(); err != nil {
				return nil, err
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			return nil, s.Setenv("PID", strconv.Itoa(cmd.Process.Pid))
		})
}

// tracedCommand waits until memtrace watches process $PID, which it does once
// its probes are in place.
func tracedCommand(t *testing.T) script.Cmd {
	return script.Command(script.CmdUsage{Summary: "wait until $PID is traced"},
		func(s *script.State, _ ...string) (script.WaitFunc, error) {
			text, _ := s.LookupEnv("PID")
			pid, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			awaitTraced(t, pid)
			return nil, nil
		})
}

// awaitTraced waits until memtrace watches a process.
func awaitTraced(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d is traced", pid), func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(status), "\nTracerPid:\t0\n")
	})
}
