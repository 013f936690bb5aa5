package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/spent"
)

// turn is one run of a program in one variant.
type turn struct {
	Wall    float64 // s, from the start to the end of all; of a service: of its load
	Target  float64 // s of processor time of the program, what the kernel does for it included
	Tracer  float64 // s of processor time of the tracer's processes
	Memory  uint64  // kB, the tracer's processes' peaks together
	Rate    float64 // a second, of a service
	P99     float64 // ms, of a service that tells
	Calls   uint64  // allocations, frees and reallocations that memtrace saw
	Lost    uint64
	Phases  int    // of back-pressure
	LeftOut uint64 // calls that were not recorded in them
}

func (t *turn) cpu() float64 { return t.Target + t.Tracer }

// answer is what a service's load says of it.
type answer struct{ rate, p99 float64 }

// patience bounds one turn.
const patience = 4 * time.Minute

// turn runs a program once.
func (s *settings) turn(p *program, v variant, command func(dir string) ([]string, error)) (*turn, error) {
	dir, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	argv, err := command(dir)
	if err != nil {
		return nil, err
	}
	var stdin *os.File
	if p.input != nil {
		if stdin, err = p.input(dir); err != nil {
			return nil, err
		}
		defer stdin.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	r, err := v.start(ctx, dir, argv, stdin)
	if err != nil {
		return nil, err
	}
	t, err := r.finish(p, dir, began)
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, saidName))
		return nil, fmt.Errorf("%w: %s", err, said[max(0, len(said)-2000):])
	}
	return t, nil
}

// finish drives the load, waits for the end of all and adds up.
func (r *running) finish(p *program, dir string, began time.Time) (*turn, error) {
	memory := watchPeaks(r.tracerPIDs())
	t := &turn{}
	var failed error
	if p.load != nil {
		loaded := time.Now()
		a, err := p.load(dir)
		t.Wall, t.Rate, t.P99 = time.Since(loaded).Seconds(), a.rate, a.p99
		failed = errors.Join(err, r.main.Process.Signal(p.end))
	}
	took, err := spent.Wait(r.main)
	failed = errors.Join(failed, err)
	t.Target = took.All()
	if r.wraps {
		t.Target, t.Tracer = took.Children, took.Own
	}
	for _, tracer := range r.tracers {
		took, err := spent.Wait(tracer)
		t.Tracer += took.All()
		failed = errors.Join(failed, err)
	}
	if p.load == nil {
		t.Wall = time.Since(began).Seconds()
	}
	t.Memory = memory.sum()
	if failed == nil && r.report != "" {
		failed = t.read(r.report)
	}
	return t, failed
}

// read takes what memtrace says of what it saw.
func (t *turn) read(file string) error {
	r, err := readReport(file)
	if err != nil {
		return err
	}
	t.Calls, t.Lost = r.Events.Alloc+r.Events.Free+r.Events.Realloc, r.Events.Lost
	if p := r.Pressure; p != nil {
		t.Phases, t.LeftOut = p.Phases, p.LeftOut.Alloc+p.LeftOut.Free+p.LeftOut.Realloc
	}
	return nil
}
