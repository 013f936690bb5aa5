package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// key names a top-level test. A package that failed as a whole, as one that does not build, has no test's name.
type key struct{ pkg, test string }

func (k key) String() string { return strings.TrimSpace(k.pkg + " " + k.test) }

// result is how a test ended, and what it and its sub-tests printed.
type result struct {
	end     string // pass, fail or skip; "" while it runs
	seconds float64
	output  strings.Builder
	subs    map[string]*result // by what follows the test's name and a slash; their output is in the test's, too
}

// sub is the result of a sub-test.
func (r *result) sub(name string) *result {
	if r.subs == nil {
		r.subs = make(map[string]*result)
	}
	if r.subs[name] == nil {
		r.subs[name] = &result{}
	}
	return r.subs[name]
}

// run is one run of tests, in the order in which they began.
type run struct {
	results map[key]*result
	order   []key
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of what is built
	Elapsed                       float64
}

func readFile(path string) (run, error) {
	f, err := os.Open(path)
	if err != nil {
		return run{}, err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return r, fmt.Errorf("read %s as the output of go test -json: %w", path, err)
	}
	return r, nil
}

func read(from io.Reader) (run, error) {
	r := run{results: make(map[key]*result)}
	lines := json.NewDecoder(from)
	for {
		var e event
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			r.endOpen()
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.add(e)
	}
}

// add takes one event in.
func (r *run) add(e event) {
	if e.Package == "" {
		e.Package, _, _ = strings.Cut(e.ImportPath, " ") // of a build: "PACKAGE [PACKAGE.test]"
	}
	test, sub, _ := strings.Cut(e.Test, "/")
	k := key{e.Package, test}
	res := r.results[k]
	if res == nil {
		res = &result{}
		r.results[k], r.order = res, append(r.order, k)
	}
	if sub != "" {
		res.sub(sub).take(e)
		res.output.WriteString(e.Output)
		return
	}
	res.take(e)
}

func (r *result) take(e event) {
	switch e.Action {
	case "output", "build-output":
		r.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		r.end, r.seconds = e.Action, e.Elapsed
	}
}

// endOpen fails the tests that never ended, as in a package that ran out of time, and leaves a package's own failure
// only where no test explains it.
func (r *run) endOpen() {
	explained := make(map[string]bool)
	for k, res := range r.results {
		if k.test != "" && res.end == "" {
			res.end = "fail"
		}
		if k.test != "" && res.end == "fail" {
			explained[k.pkg] = true
		}
	}
	for k, res := range r.results {
		if k.test == "" && (res.end != "fail" || explained[k.pkg]) {
			res.end = ""
		}
	}
}
