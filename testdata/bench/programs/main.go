// Command programs measures what tracing costs real programs: a compiler,
// services under load, an interpreter, a database, git. Each runs untraced,
// with empty probes, under memtrace, and under heaptrack, in rounds where each
// of these has its turn. It keeps what it measured and, once it has all of them, writes
// the section "programs" of docs/benchmarks.md from that. It needs root, a
// built memtrace and the programs; `make bench-programs` sees to all of it.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

// settings are the flags.
type settings struct {
	memtrace string
	rounds   int
	keep     string
	variants *regexp.Regexp
	more     []string // of memtrace's flags
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == floorArgument {
		os.Exit(runFloor(os.Args[2:]))
	}
	var s settings
	out := flag.String("o", "", "write the section from what is kept into this `document`")
	more := flag.String("memtrace-flags", "", "more `flags` of memtrace run, for a look; nothing is kept")
	only := flag.String("variants", "", "only the variants that match this `expression`, for a look; nothing is kept")
	flag.StringVar(&s.memtrace, "memtrace", "./memtrace", "the memtrace to measure")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds")
	flag.StringVar(&s.keep, "keep", "build/programs", "the directory for what was measured")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "bench-programs [flags] [PROGRAM...]: measures these (%s), or only writes the section of what is kept\n", strings.Join(names(), ", "))
		flag.PrintDefaults()
	}
	flag.Parse()
	s.more = strings.Fields(*more)
	var err error
	if s.variants, err = regexp.Compile(*only); err == nil {
		err = run(&s, flag.Args(), *out, *more == "" && *only == "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func run(s *settings, chosen []string, out string, keeping bool) error {
	for _, name := range chosen {
		p, err := programNamed(name)
		if err != nil {
			return err
		}
		r, err := s.measure(p)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(programText(p, r))
		if keeping {
			if err := s.save(p, r); err != nil {
				return err
			}
		}
	}
	if out == "" || !keeping {
		return nil
	}
	text, missing, err := s.document()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		fmt.Printf("%s is left as it is until all are measured: %s\n", out, strings.Join(missing, ", "))
		return nil
	}
	return section.Write(out, "programs", text)
}
