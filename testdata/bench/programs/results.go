package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/figures"
)

// results are all turns of a program.
type results struct {
	Machine, Date, Load string // Load is from before
	Variants            []string
	Turns               map[string][]turn // by variant, in the order of the rounds
}

// measure gives each variant a turn in each round. A first turn of memtrace
// that does not count warms up the page cache, and memtrace's caches of names
// and tables.
func (s *settings) measure(p *program) (*results, error) {
	shared, err := os.MkdirTemp("", "programs-shared-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(shared)
	if err := os.Chmod(shared, 0o755); err != nil {
		return nil, err
	}
	command, err := p.prepare(shared)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	r := &results{Machine: figures.Machine(), Date: time.Now().UTC().Format("2006-01-02"), Load: figures.Load(), Turns: make(map[string][]turn)}
	if _, err := s.turn(p, s.full(), command); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	variants := s.variantsOf(p)
	for _, v := range variants {
		r.Variants = append(r.Variants, v.name)
	}
	for round := range s.rounds {
		for _, v := range variants {
			t, err := s.turn(p, v, command)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, v.name, err)
			}
			r.Turns[v.name] = append(r.Turns[v.name], *t)
			fmt.Fprintf(os.Stderr, "round %d, %-20s %+v\n", round+1, v.name, *t)
		}
	}
	return r, nil
}

func (s *settings) file(p *program) string { return filepath.Join(s.keep, p.name+".json") }

func (s *settings) save(p *program, r *results) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.keep, 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.file(p), text, 0o644)
}

// kept reads what save wrote; nil where there is nothing.
func (s *settings) kept(p *program) (*results, error) {
	text, err := os.ReadFile(s.file(p))
	if os.IsNotExist(err) {
		return nil, nil
	}
	r := &results{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was measured of %s: %w", p.name, err)
	}
	return r, nil
}

// values are a figure of all turns of a variant.
func (r *results) values(variant string, of func(*turn) float64) (out []float64) {
	for i := range r.Turns[variant] {
		out = append(out, of(&r.Turns[variant][i]))
	}
	return out
}

// ratios compares two variants round by round: what slows the machine down for
// a while slows down both. Nil where there are too few rounds to quote one.
func (r *results) ratios(variant, to string, of func(*turn) float64) (out []float64) {
	with, without := r.values(variant, of), r.values(to, of)
	if len(with) < figures.MinRounds || len(with) != len(without) {
		return nil
	}
	for i := range with {
		out = append(out, with[i]/without[i])
	}
	return out
}

func (t *turn) rate() float64   { return t.Rate }
func (t *turn) p99() float64    { return t.P99 }
func (t *turn) wall() float64   { return t.Wall }
func (t *turn) tracer() float64 { return t.Tracer }
func (t *turn) memory() float64 { return float64(t.Memory) }
