package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/testdata/bench/spent"
)

// A result is what was measured of a program.
type result struct {
	program
	events       int     // in the recording
	bytes        int64   // of the recording, with stacks and names
	report       int64   // of those, the last Report, which is no part of a peer's file
	heaptrack    int64   // bytes of heaptrack's file
	calls        int     // allocations and frees in that
	plain, with  float64 // seconds of memtrace's own, without and with a recording
	speed        map[string]float64
	encodedBytes float64 // an event, written at once
}

func measure(p program, memtrace, dir string, rounds int) (result, error) {
	r := result{program: p}
	file := filepath.Join(dir, p.name+".memtrace")
	var plain, with []float64
	for range rounds {
		for _, o := range []string{"", file} {
			s, err := traced(memtrace, o, p.argv)
			if err != nil {
				return r, err
			}
			if o == "" {
				plain = append(plain, s)
			} else {
				with = append(with, s)
			}
		}
	}
	r.plain, r.with = median(plain), median(with)
	if err := r.look(file); err != nil {
		return r, err
	}
	if err := r.beside(dir); err != nil {
		return r, err
	}
	return r, r.speeds(file)
}

// traced runs the program under memtrace and returns memtrace's own processor time in seconds.
func traced(memtrace, file string, argv []string) (float64, error) {
	args := []string{"run", "--report", "/dev/null"}
	if file != "" {
		args = append(args, "-o", file)
	}
	cmd := exec.Command(memtrace, append(append(args, "--"), argv...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	t, err := spent.Wait(cmd)
	return t.Own, err
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// look counts what is in the recording.
func (r *result) look(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r.bytes = info.Size()
	reader, err := recording.Open(f, r.bytes)
	if err != nil {
		return err
	}
	r.report = reader.StoredSize()
	return reader.Inputs(func(in input.Input) error {
		if v, ok := in.(*input.Events); ok {
			r.events += len(v.Events)
		}
		return nil
	}, func(g recording.Gap) error { return fmt.Errorf("the recording lacks something: %+v", g) })
}

// beside records the program by heaptrack.
func (r *result) beside(dir string) error {
	out := filepath.Join(dir, r.name)
	cmd := exec.Command("heaptrack", append([]string{"-o", out}, r.argv...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("heaptrack: %w: %s", err, text)
	}
	files, err := filepath.Glob(out + ".*")
	if err != nil {
		return err
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && filepath.Ext(file) != ".memtrace" {
			r.heaptrack = info.Size()
			unpack := map[string]string{".gz": "zcat", ".zst": "zstdcat"}[filepath.Ext(file)]
			text, err := exec.Command(unpack, file).Output()
			if err != nil {
				return fmt.Errorf("unpack %s: %w", file, err)
			}
			r.calls = bytes.Count(text, []byte("\n+ ")) + bytes.Count(text, []byte("\n- "))
		}
	}
	if r.calls == 0 {
		return fmt.Errorf("heaptrack wrote nothing to %s.*: %v", out, files)
	}
	return nil
}

var benchLine = regexp.MustCompile(`(?m)^BenchmarkRecorded/(\w+?)(?:-\d+)?\s.*?([\d.]+) ns/event(?:.*?([\d.]+) bytes/event)?`)

// speeds measures how fast the recording's events are written and read again.
func (r *result) speeds(file string) error {
	cmd := exec.Command("go", "test", "-run", "-", "-bench", "Recorded", "./analyzer/recording")
	cmd.Env = append(os.Environ(), "MEMTRACE_RECORDING="+file)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the benchmarks: %w: %s", err, text)
	}
	r.speed = make(map[string]float64)
	for _, m := range benchLine.FindAllStringSubmatch(string(text), -1) {
		if r.speed[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			return err
		}
		if m[3] != "" {
			if r.encodedBytes, err = strconv.ParseFloat(m[3], 64); err != nil {
				return err
			}
		}
	}
	if len(r.speed) != 5 {
		return fmt.Errorf("no result in: %s", text)
	}
	return nil
}
