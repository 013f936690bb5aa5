package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
	"rsc.io/script"
	"rsc.io/script/scripttest"

	"github.com/memtrace/memtrace/tracer/launch"
)

// asMemtrace makes the test binary be memtrace, so that scripts run the code
// under test without a build before.
const asMemtrace = "MEMTRACE_TEST_AS_MEMTRACE"

func TestMain(m *testing.M) {
	launch.Shim()
	if os.Getenv(asMemtrace) != "" {
		main()
	}
	os.Exit(m.Run())
}

// runScripts runs every script of a directory as a subtest.
func runScripts(t *testing.T, dir string, more map[string]script.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	engine := script.NewEngine()
	engine.Cmds = scripttest.DefaultCmds()
	engine.Conds = scripttest.DefaultConds()
	delete(engine.Cmds, "skip") // a script that does not run is a script that fails
	engine.Cmds["memtrace"] = script.Program(self, func(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }, 0)
	maps.Copy(engine.Cmds, more)
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			runScript(t, engine, file)
		})
	}
}

func runScript(t *testing.T, engine *script.Engine, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), asMemtrace+"=1", "NO_COLOR=1", "TERM=dumb")
	state, err := script.NewState(context.Background(), t.TempDir(), env)
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
	runScripts(t, filepath.Join("testdata", "script"), nil)
}
