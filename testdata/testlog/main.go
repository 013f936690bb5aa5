// Testlog answers questions about the files that `go test -json` wrote, one file a run:
//
//	testlog failed FILE...     the tests that failed, a line each: package and name
//	testlog complaints FILE... the same, each with the last lines that it printed
//	testlog slowest FILE...    the twenty that took longest
//	testlog rates FILE...      how often each test failed, of how many runs, and what it printed then
//	testlog count FILE...      "N passed, N failed, N skipped"
//
// Tests are top-level ones: a sub-test counts for its parent, and is named only by complaints.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := answer(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(2)
	}
}

func answer(w io.Writer, args []string) error {
	questions := map[string]func(io.Writer, []run) error{
		"failed": failed, "complaints": complaints, "slowest": slowest, "rates": rates, "count": count,
	}
	if len(args) < 2 || questions[args[0]] == nil {
		return errors.New("want failed, complaints, slowest, rates or count, and files of go test -json")
	}
	var runs []run
	for _, path := range args[1:] {
		r, err := readFile(path)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	return questions[args[0]](w, runs)
}
