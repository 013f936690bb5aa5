//go:build integration

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// playing has a memtrace play back, and returns what checks that it could: its inputs gave the same Reports
// to another analyzer, and there were some of each of these kinds.
func playing(t *testing.T, cmd *exec.Cmd) (check func(kinds ...string)) {
	file := filepath.Join(t.TempDir(), "played")
	cmd.Env = append(cmd.Env, playsBack+"="+file)
	return func(kinds ...string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var p played
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d Reports of %v", p.Reports, p.Kinds)
		if p.Problem != "" {
			t.Error(p.Problem)
		}
		for _, kind := range append(kinds, "*input.Events", "input.Stack", "input.Instant", "input.Names", "input.Memory") {
			if p.Kinds[kind] == 0 {
				t.Errorf("there is no %s among %v", kind, p.Kinds)
			}
		}
	}
}

// What the analyzer is told of a trace, told again without a tracer and without the processes, gives the
// same Reports to the byte: while programs fork and execute others, of samples, pools and regions, with
// leak checks.
func TestTracesPlayBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags, command, env []string
		kinds               []string
	}{
		"forks": {
			flags:   []string{"--leaks"},
			command: []string{"sh", "-c", `i=0; while [ $i -lt 40 ]; do "$0" 2 & i=$((i+1)); done; wait`, testProgram("leak_exec")}, env: []string{"HOW=child"},
			kinds: []string{"input.Described", "input.Verdicts"},
		},
		"execs": {
			flags:   []string{"--leaks"},
			command: []string{"sh", "-c", `exec "$0" 3 5`, testProgram("leak_exec")}, env: []string{"HOW=threads"},
			kinds: []string{"input.Started", "input.Verdicts", "input.Paused", "input.ExitCode"},
		},
		"samples": {flags: []string{"--sample-bytes", "16KiB"}, command: []string{testProgram("samples"), "run"}},
		"pools":   {flags: ownPools, command: []string{testProgram("own_pools"), "run"}, kinds: []string{"input.PoolName"}},
		"regions": {command: []string{testProgram("regions"), "run"}, kinds: []string{"input.Mapped"}},
		// A limit has a Report made each interval.
		"intervals": {
			flags: []string{"-i", "50ms", "--fail-on", "growth>1TiB/min"}, command: []string{testProgram("churn"), "run"},
			kinds: []string{"input.Window"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--report", filepath.Join(t.TempDir(), "report")}, c.flags...)
			cmd := memtraceCommand(t, append(append(args, "--"), c.command...)...)
			cmd.Env = append(cmd.Env, c.env...)
			check := playing(t, cmd)
			if out, code := finishLeaks(t, cmd); code != 0 {
				t.Errorf("exit code %d: %s", code, out)
			}
			check(c.kinds...)
		})
	}
}

// So does a trace that lost events, the blocks of which the allocator's records then clear up.
func TestLossesPlayBack(t *testing.T) {
	t.Parallel()
	c, err := startCommand(t, exec.Command(testProgram("freed_unseen"), "attach", fillsRings))
	if err != nil {
		t.Fatal(err)
	}
	cmd := memtraceCommand(t, "-p", strconv.Itoa(c.cmd.Process.Pid), "--format", "json", "-i", "100ms",
		"--back-pressure", "0", "--faults", "off", "--hold=false", "--leaks")
	check := playing(t, cmd)
	tr := startTracingBy(t, cmd)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	live := c.total(t, "live_count")
	for r := tr.report(); r.Processes[0].Heap.LiveCount < live; r = tr.report() {
		if r.Final {
			t.Fatalf("memtrace saw %d of %d blocks", r.Processes[0].Heap.LiveCount, live)
		}
	}
	r := tr.stopBeside(c)
	if r.Events.Lost == 0 {
		t.Error("nothing was lost")
	}
	check("input.Loss", "input.ProcessLoss", "input.Repair", "input.Verdicts")
}
