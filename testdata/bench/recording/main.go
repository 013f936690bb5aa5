// Command recording measures what a recording takes and costs, beside heaptrack on the same programs: bytes an event,
// the tracer's processor time with and without one, and how fast events are written and read back. It writes the section
// "recording" of docs/benchmarks.md. It needs root, a built memtrace, heaptrack and the programs; `make bench-recording` sees
// to that.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

func main() {
	memtrace := flag.String("memtrace", "./memtrace", "the memtrace to measure")
	rounds := flag.Int("rounds", 5, "rounds, of which the medians count")
	out := flag.String("o", "docs/benchmarks.md", "the document")
	flag.Parse()
	if err := run(*memtrace, *rounds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(memtrace string, rounds int, out string) error {
	dir, err := os.MkdirTemp("", "bench-recording")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var all []result
	for _, p := range programs() {
		r, err := measure(p, memtrace, dir, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %+v\n", p.name, r)
		all = append(all, r)
	}
	text := document(all, rounds)
	fmt.Print(text)
	return section.Write(out, "recording", text)
}
