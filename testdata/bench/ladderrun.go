package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/testdata/bench/figures"
	"github.com/memtrace/memtrace/testdata/bench/ladder"
	"github.com/memtrace/memtrace/testdata/bench/section"
)

// ladderTurn is one run of a program on one rung.
type ladderTurn struct {
	Target      float64 // ns of the program's processor time, what the kernel does for it included
	Tracer      float64 // ns of memtrace's, from its start to its end
	Alloc, Free ran     // the programs of allocations and of frees
	Events      uint64  // that memtrace saw
	Blocks      uint64  // allocations among them
	Temporary   uint64  // blocks that their thread freed before it allocated another one
}

// A ladderProgram is what runs on the rungs.
type ladderProgram struct {
	name, what string
	only       []string // rungs; nil: all
	// prepare makes ready in a directory what all turns need, and says the command; nil: nothing.
	prepare func(dir string) (argv []string, err error)
	// turn runs it under a memtrace; "": untraced.
	turn func(s *settings, memtrace string, argv []string) (*ladderTurn, error)
}

// Variants beside the rungs. The kernel's statistics read the clock twice in each run of a program: what that costs,
// and what all cost without, these two say.
const (
	untracedName   = "untraced"
	plainFloorName = ladder.Floor + ", statistics off"
	plainWholeName = ladder.Whole + ", statistics off"
)

// ladderResults are all turns of a program, by variant, in the order of the rounds.
type ladderResults struct {
	Machine, Date string
	Loads         []string // before each round
	Turns         map[string][]ladderTurn
}

// runLadder measures one of the programs and renews the section of the file of -o once both are measured.
func runLadder(s settings) error {
	if s.ladder != "show" {
		p, err := ladderNamed(s.ladder)
		if err != nil {
			return err
		}
		r, err := s.ladderRounds(p)
		if err != nil {
			return fmt.Errorf("measure the ladder with %s: %w", p.name, err)
		}
		fmt.Print(ladderTable(p, r))
	}
	all := make(map[string]*ladderResults)
	for _, p := range ladderPrograms() {
		r, err := s.keptLadder(p.name)
		if err != nil {
			return err
		}
		if len(r.Turns[ladder.Whole]) == 0 {
			fmt.Printf("the document is left as it is until %s is measured\n", p.name)
			return nil
		}
		all[p.name] = r
	}
	if s.out == "" {
		return nil
	}
	return section.Write(s.out, "ladder", ladderText(all))
}

// ladderRounds adds rounds to those that are kept: in pieces, a ladder can have its turn on a machine that others use.
func (s *settings) ladderRounds(p *ladderProgram) (*ladderResults, error) {
	r, err := s.keptLadder(p.name)
	if err != nil {
		return nil, err
	}
	r.Machine, r.Date = figures.Machine(), figures.Today()
	argv, err := s.prepareLadder(p)
	if err != nil {
		return nil, err
	}
	if _, err := p.turn(s, s.memtrace, argv); err != nil { // which fills the caches of pages, names and tables
		return nil, err
	}
	for range s.rounds {
		round := make(map[string]*ladderTurn)
		load := figures.Load()
		for _, name := range p.variants() {
			if round[name], err = s.ladderTurn(p, name, argv); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			t := round[name]
			fmt.Fprintf(os.Stderr, "%-22s %8.1f ms, programs %5.0f and %5.0f ns, %d events\n", name, t.Target/1e6,
				t.Alloc.NS/float64(max(t.Alloc.Runs, 1)), t.Free.NS/float64(max(t.Free.Runs, 1)), t.Events)
		}
		r.Loads = append(r.Loads, load)
		for name, t := range round {
			r.Turns[name] = append(r.Turns[name], *t)
		}
		if err := s.keepLadder(p.name, r); err != nil { // whole rounds alone
			return nil, err
		}
	}
	return r, nil
}

func (s *settings) prepareLadder(p *ladderProgram) ([]string, error) {
	if p.prepare == nil {
		return nil, nil
	}
	dir, err := filepath.Abs(filepath.Join(s.rungs, p.name))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return p.prepare(dir)
}

// rungs are those that the program runs on, each on top of one of them.
func (p *ladderProgram) rungs() (list []ladder.Rung) {
	below := make(map[string]string) // of each rung: the nearest one that the program runs on
	for _, r := range ladder.Rungs() {
		if p.only != nil && !slices.Contains(p.only, r.Name) {
			below[r.Name] = below[r.Before]
			continue
		}
		below[r.Name], r.Before = r.Name, below[r.Before]
		list = append(list, r)
	}
	return list
}

// variants are all ways to run the program, in the order of a round.
func (p *ladderProgram) variants() []string {
	names := []string{untracedName, plainFloorName}
	for _, r := range p.rungs() {
		names = append(names, r.Name)
	}
	return append(names, plainWholeName)
}

func (s *settings) ladderTurn(p *ladderProgram, name string, argv []string) (t *ladderTurn, err error) {
	rung, isPlain := strings.CutSuffix(name, ", statistics off")
	path := ladder.Path(s.rungs, rung)
	switch rung {
	case untracedName:
		path = ""
	case ladder.Whole:
		path = s.memtrace
	}
	if isPlain || path == "" {
		return p.turn(s, path, argv)
	}
	var stats io.Closer
	if stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return nil, fmt.Errorf("have the kernel take statistics of BPF programs: %w", err)
	}
	watch, err := watchPrograms()
	if err != nil {
		return nil, errors.Join(err, stats.Close())
	}
	t, err = p.turn(s, path, argv)
	alloc, free, statsErr := watch.end()
	if err := errors.Join(err, statsErr, stats.Close()); err != nil {
		return nil, err
	}
	t.Alloc, t.Free = alloc, free
	return t, nil
}

func (s *settings) ladderFile(name string) string { return filepath.Join(s.rungs, name+".json") }

func (s *settings) keepLadder(name string, r *ladderResults) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(s.ladderFile(name), text, 0o644)
}

// keptLadder reads what keepLadder wrote; nothing is no turns.
func (s *settings) keptLadder(name string) (*ladderResults, error) {
	r := &ladderResults{Turns: make(map[string][]ladderTurn)}
	text, err := os.ReadFile(s.ladderFile(name))
	if os.IsNotExist(err) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was measured with %s: %w", name, err)
	}
	return r, nil
}
