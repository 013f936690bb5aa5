package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/memtrace/memtrace/testdata/bench/ladder"
	"github.com/memtrace/memtrace/testdata/bench/spent"
	"github.com/memtrace/memtrace/testdata/bench/workload"
)

// ladderPairs is how many pairs the loop makes on each rung.
const ladderPairs = 400_000

// coarse are the rungs of a program whose turns take seconds, and whose traps alone vary by more than the others' steps.
var coarse = []string{ladder.AllTraps, ladder.Floor, "return", "walk", ladder.Stack, ladder.AllocSubmit, ladder.FreeState, ladder.FreeSubmit, ladder.Whole}

func ladderPrograms() []*ladderProgram {
	return []*ladderProgram{
		{"loop", fmt.Sprintf("The loop: %d pairs of malloc(64) and free, one thread, %d frames, no frame pointers (testdata/programs/churn.c)", ladderPairs, depth), nil, nil, loopOnRung},
		{"compiler", "`cc1plus -O2` on the smaller file of `make bench-programs`, preprocessed, from its first instruction on", coarse, workload.SmallCompiler, compilerOnRung},
	}
}

func ladderNamed(name string) (*ladderProgram, error) {
	for _, p := range ladderPrograms() {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the ladder has no program %q, but loop and compiler", name)
}

// loopOnRung lets the loop run under a memtrace.
func loopOnRung(s *settings, memtrace string, _ []string) (*ladderTurn, error) {
	p, err := startLoop(nil, filepath.Join(s.programs, "churn_nofp"), loopShape{depth: depth, threads: 1, pairs: ladderPairs})
	if err != nil {
		return nil, err
	}
	defer p.kill()
	if memtrace == "" {
		_, cpu, err := p.run()
		return &ladderTurn{Target: float64(cpu)}, err
	}
	m, err := startMemtrace(memtrace, p.pid, append([]string{"--unwind", "dwarf"}, s.more...))
	if err != nil {
		return nil, err
	}
	a, cpu, err := p.run()
	if err != nil {
		return nil, err
	}
	if err := m.stop(); err != nil {
		return nil, err
	}
	state := m.cmd.ProcessState
	return &ladderTurn{
		Target: float64(cpu), Tracer: float64(state.UserTime() + state.SystemTime()),
		Events: m.last.Events.Alloc + m.last.Events.Free,
		Blocks: a.Total.Alloc, Temporary: a.Total.Temporary,
	}, nil
}

// compilerOnRung compiles a file under a memtrace.
func compilerOnRung(s *settings, memtrace string, argv []string) (*ladderTurn, error) {
	report := filepath.Join(s.rungs, "report.json")
	if memtrace != "" {
		argv = append([]string{memtrace, "run", "--unwind", "dwarf", "--top", "20", "--format", "json", "--report", report, "--"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	took, err := spent.Wait(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	if memtrace == "" {
		return &ladderTurn{Target: took.All() * 1e9}, nil
	}
	t := &ladderTurn{Target: took.Children * 1e9, Tracer: took.Own * 1e9}
	return t, t.readReport(report)
}

// readReport takes what memtrace counted.
func (t *ladderTurn) readReport(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r struct {
		Events    struct{ Alloc, Free, Realloc, Lost uint64 }
		Processes []struct {
			Heap struct {
				AllocCount     uint64 `json:"alloc_count"`
				TemporaryCount uint64 `json:"temporary_count"`
			}
		}
		Pressure *struct{ Phases int }
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read the Report: %w", err)
	}
	if r.Events.Lost > 0 || r.Pressure != nil && r.Pressure.Phases > 0 {
		return fmt.Errorf("memtrace lost %d events, and left blocks out under pressure (%v)", r.Events.Lost, r.Pressure)
	}
	t.Events = r.Events.Alloc + r.Events.Free + r.Events.Realloc
	for _, p := range r.Processes {
		t.Blocks, t.Temporary = t.Blocks+p.Heap.AllocCount, t.Temporary+p.Heap.TemporaryCount
	}
	return nil
}
