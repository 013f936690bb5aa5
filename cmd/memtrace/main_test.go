//go:build linux && !viewer

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"
	"rsc.io/script"
	"rsc.io/script/scripttest"
)

// asMemtrace makes the test binary be memtrace, so that scripts run the code
// under test without a build before.
const asMemtrace = "MEMTRACE_TEST_AS_MEMTRACE"

// unitsIn is a root directory of systemd's units, in place of the machine's.
const unitsIn = "MEMTRACE_TEST_UNITS_IN"

func TestMain(m *testing.M) {
	if file := os.Getenv(playsBack); file != "" {
		playBackInto(file)
	}
	if root := os.Getenv(unitsIn); root != "" {
		unitRoot = root
	}
	if os.Getenv(asMemtrace) != "" {
		jvmRest = 1 // an answer that is slow on a busy machine is not to have a test wait 50 times as long
		main()
	}
	own, err := os.MkdirTemp("", "memtrace-config")
	if err != nil {
		panic(err)
	}
	madeOnce = append(madeOnce, own)
	os.Setenv("XDG_CONFIG_HOME", own) // what the developer has configured is nobody else's
	code := m.Run()
	for _, dir := range madeOnce {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// madeOnce are directories that several tests use.
var madeOnce []string

// scriptCommands makes commands for one script, beside the common ones.
type scriptCommands func(t *testing.T) map[string]script.Cmd

// runScripts runs every script of a directory as a subtest, side by side.
func runScripts(t *testing.T, dir string, env []string, more scriptCommands) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			runScript(t, scriptEngine(t, more), env, file)
		})
	}
}

// scriptEngine is for one script, as its commands know what ran before.
func scriptEngine(t *testing.T, more scriptCommands) *script.Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	engine := script.NewEngine()
	engine.Cmds = scripttest.DefaultCmds()
	engine.Conds = scripttest.DefaultConds()
	engine.Conds["runs32"] = script.Condition("the kernel runs 32-bit programs", runs32)
	delete(engine.Cmds, "skip") // a script that does not run is a script that fails
	var code int
	engine.Cmds["memtrace"] = noteCode(script.Program(self, func(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }, 0), &code)
	engine.Cmds["code"] = codeCommand(&code)
	if more != nil {
		maps.Copy(engine.Cmds, more(t))
	}
	return engine
}

// runs32 starts a 32-bit program: the kernel knows its format, or not.
func runs32(s *script.State) (bool, error) {
	programs, _ := s.LookupEnv("PROGRAMS")
	cmd := exec.Command(filepath.Join(programs, "sleeper32"))
	err := cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return true, nil
}

// noteCode makes a command keep its exit code.
func noteCode(program script.Cmd, code *int) script.Cmd {
	return script.Command(*program.Usage(), func(s *script.State, args ...string) (script.WaitFunc, error) {
		wait, err := program.Run(s, args...)
		if err != nil {
			return nil, err
		}
		return func(s *script.State) (string, string, error) {
			out, complaints, err := wait(s)
			*code = 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				*code = exit.ExitCode()
			}
			return out, complaints, err
		}, nil
	})
}

// codeCommand checks the exit code of the memtrace that ran last: code 23
func codeCommand(code *int) script.Cmd {
	return script.Command(script.CmdUsage{Summary: "check memtrace's exit code", Args: "number"},
		func(_ *script.State, args ...string) (script.WaitFunc, error) {
			if len(args) != 1 {
				return nil, script.ErrUsage
			}
			if got := strconv.Itoa(*code); got != args[0] {
				return nil, fmt.Errorf("memtrace exited with %s, want %s", got, args[0])
			}
			return nil, nil
		})
}

func runScript(t *testing.T, engine *script.Engine, env []string, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(os.Environ(), []string{asMemtrace + "=1", "NO_COLOR=1", "TERM=dumb"}, env)
	state, err := script.NewState(context.Background(), t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(text)
	if err := state.ExtractFiles(archive); err != nil {
		t.Fatal(err)
	}
	scripttest.Run(t, engine, state, filepath.Base(file), bytes.NewReader(archive.Comment))
}

// TestScripts needs neither root nor a kernel with BPF.
func TestScripts(t *testing.T) {
	runScripts(t, filepath.Join("testdata", "script"), nil, nil)
}
