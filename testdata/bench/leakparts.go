package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

// leakResults are the parts of the section about leak scans. They are measured
// one at a time, as a quiet machine is not to be had for long, and kept in a
// file between.
type leakResults struct {
	Scans    map[string]leakRun // by order
	Locks    map[string]lockRun // by reader
	Services []serviceRun       `json:"-"`
}

// serviceRun is how long the requests took that a service answered meanwhile.
// TestLeakScansUnderLoad (cmd/memtrace/scans_services_test.go) writes a file
// for each. Times are ns.
type serviceRun struct {
	Service, What, Load string
	Checks, Requests    int
	P50, P99, Longest   int64
}

const (
	leakSection = "leaks"
	leakFile    = "leaks.json"     // in the folder above the programs
	serviceDir  = "leaks-services" // beside it: a file for each service
)

// leakParts are what -leaks takes; "show" measures nothing.
var leakParts = []string{"near", "far", "locks", "show"}

// runLeaks measures parts of the section and writes it anew.
func runLeaks(s settings) error {
	r, path, err := s.loadLeaks()
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(s.leaks, ",") {
		switch {
		case !slices.Contains(leakParts, part):
			return fmt.Errorf("-leaks: %q is none of %s", part, strings.Join(leakParts, ", "))
		case part == "locks":
			r.Locks, err = s.lockWaits()
		case part != "show":
			r.Scans[part], err = s.leakScan(part)
		}
		if err != nil {
			return fmt.Errorf("measure leak scans, %s: %w", part, err)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	body := r.text()
	fmt.Print(body)
	if s.out == "" {
		return nil
	}
	return section.Write(s.out, leakSection, body)
}

// loadLeaks reads what was measured before.
func (s *settings) loadLeaks() (r leakResults, path string, err error) {
	dir := filepath.Dir(filepath.Clean(s.programs))
	path = filepath.Join(dir, leakFile)
	if err := readJSON(path, &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, path, err
	}
	if r.Scans == nil {
		r.Scans = make(map[string]leakRun)
	}
	files, err := filepath.Glob(filepath.Join(dir, serviceDir, "*.json"))
	if err != nil || len(files) == 0 {
		return r, path, err
	}
	for _, file := range files {
		var one serviceRun
		if err := readJSON(file, &one); err != nil {
			return r, path, err
		}
		r.Services = append(r.Services, one)
	}
	return r, path, nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
