// Command system measures what it takes to read the memory of all processes of
// a machine: the kernel's own walks (the floor: open, read and close of each
// smaps_rollup, unparsed), memtrace's collector, a reader on prometheus/procfs,
// and the programs smem and ps_mem, in rounds where each has its turn. It is a
// module of its own, so that memtrace doesn't depend on what it is compared with.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

// settings are the flags.
type settings struct {
	out    string
	rounds int
	only   *regexp.Regexp // contenders, besides the floor
	scenes *regexp.Regexp
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		child(os.Args[2])
		return
	}
	var s settings
	flag.StringVar(&s.out, "o", "", "put the results into this file, too, after what it says of tracing")
	only := flag.String("only", "", "measure only what matches this expression, and the floor")
	in := flag.String("in", "", "measure only in scenes that match this expression")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(*only); err == nil {
		s.scenes, err = regexp.Compile(*in)
	}
	if err == nil {
		err = run(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// scenes are the machines that are measured.
var scenes = []scene{
	{name: "300 idle processes", processes: 300},
	{name: "2,000 idle processes", processes: 2000},
	{name: "300 processes of 32 MB", processes: 300, mib: 32},
}

func run(s settings) error {
	var tables []table
	for _, sc := range scenes {
		if !s.scenes.MatchString(sc.name) {
			continue
		}
		t, err := s.measureScene(sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		tables = append(tables, t)
	}
	stall, err := measureStall(3 * s.rounds)
	if err != nil {
		return fmt.Errorf("stall: %w", err)
	}
	text := document(tables, s.rounds) + stall
	fmt.Print(text)
	if s.out == "" {
		return nil
	}
	return section.Write(s.out, "system", text)
}

func (s settings) measureScene(sc scene) (table, error) {
	fmt.Fprintf(os.Stderr, "bench: starting %s\n", sc.name)
	stop, err := sc.start()
	defer stop()
	if err != nil {
		return table{}, err
	}
	contenders, err := open()
	if err != nil {
		return table{}, err
	}
	contenders = slices.DeleteFunc(contenders, func(c contender) bool { return c.name != floorName && !s.only.MatchString(c.name) })
	t := table{scene: sc.name, times: make(map[string][]measurement)}
	for _, c := range contenders {
		t.names = append(t.names, c.name)
		if _, err := c.measure(); err != nil { // the first turn warms up, and is left out
			return table{}, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for range s.rounds {
		for _, c := range contenders {
			m, err := c.measure()
			if err != nil {
				return table{}, fmt.Errorf("%s: %w", c.name, err)
			}
			t.times[c.name] = append(t.times[c.name], m)
		}
		time.Sleep(50 * time.Millisecond) // so that the rounds don't all meet the same neighbour
	}
	for _, c := range contenders {
		c.close()
	}
	return t, nil
}
